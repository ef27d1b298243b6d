#include "graph/graph_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "graph/open_bodies.h"

namespace fk {
namespace {

constexpr std::array<std::pair<std::string_view, GraphNode::Kind>, 3> kViewNames = {
    {{"slice", GraphNode::Kind::kSlice}, {"reshape", GraphNode::Kind::kReshape}, {"concat", GraphNode::Kind::kConcat}}};

Json fields_json(const Fields& fields) {
  Json json = Json::object();
  for (const Field& f : fields)
    json[f.name] = std::visit(
        [](const auto& v) -> Json {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, Fields>)
            return fields_json(v);
          else
            return Json(v);
        },
        f.value);
  return json;
}

// A constant is a number, so that programs need not parse it.
Json sizes_json(const std::vector<SymbolicSize>& sizes) {
  Json json = Json::array();
  for (const SymbolicSize& s : sizes) {
    if (s == SymbolicSize(s.constant))
      json.push_back(s.constant);
    else
      json.push_back(size_text(s));
  }
  return json;
}

Json operands_json(const std::vector<GraphOperand>& operands) {
  Json json = Json::object();
  for (const GraphOperand& o : operands) json[o.name] = o.value;
  return json;
}

Json value_json(const GraphValue& value) {
  Json json = {{"kind", value_kind_name(value.kind)}};
  if (!value.name.empty()) json["name"] = value.name;
  json["dtype"] = dtype_name(value.dtype);
  json["shape"] = sizes_json(value.shape);
  return json;
}

Json node_json(const GraphNode& node) {
  Json json;
  if (node.is_call()) {
    json = {{"op", node.op}, {"level", node.level}, {"path", node.path}, {"init", fields_json(node.init)}};
    if (node.body != GraphNode::kNoBody) json["body"] = node.body;
  } else {
    json["view"] = node.name();
    if (node.kind == GraphNode::Kind::kSlice) json["starts"] = sizes_json(node.starts);
  }
  json["inputs"] = operands_json(node.inputs);
  json["outputs"] = operands_json(node.outputs);
  return json;
}

[[noreturn]] void throw_not_a_graph(std::string_view what) {
  throw Error("This JSON is not a graph of `fastkernels graph --json`: {}.", what);
}

const Json& member(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) throw_not_a_graph(fmt::format("'{}' is missing", name));
  return json[name];
}
int64_t whole_number(const Json& json, const char* name) {
  const Json& number = member(json, name);
  if (!number.is_number_integer()) throw_not_a_graph(fmt::format("'{}' is not a whole number", name));
  return number.get<int64_t>();
}
std::string words(const Json& json, const char* name) {
  const Json& text = member(json, name);
  if (!text.is_string()) throw_not_a_graph(fmt::format("'{}' is not a text", name));
  return text.get<std::string>();
}
const Json& list(const Json& json, const char* name) {
  const Json& array = member(json, name);
  if (!array.is_array()) throw_not_a_graph(fmt::format("'{}' is not a list", name));
  return array;
}

Fields read_fields(const Json& json) {
  if (!json.is_object()) throw_not_a_graph("constructor arguments are not an object");
  Fields fields;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean())
      fields.push_back({name, value.get<bool>()});
    else if (value.is_number_integer())
      fields.push_back({name, value.get<int64_t>()});
    else if (value.is_number())
      fields.push_back({name, value.get<double>()});
    else if (value.is_string())
      fields.push_back({name, value.get<std::string>()});
    else if (value.is_object())
      fields.push_back({name, read_fields(value)});
    else if (value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_number_integer(); }))
      fields.push_back({name, value.get<std::vector<int64_t>>()});
    else
      throw_not_a_graph(fmt::format("the constructor argument '{}' has no value that one can have", name));
  }
  return fields;
}

std::vector<SymbolicSize> read_sizes(const Json& json, const char* name) {
  std::vector<SymbolicSize> sizes;
  for (const Json& size : list(json, name)) {
    if (size.is_number_integer())
      sizes.emplace_back(size.get<int64_t>());
    else if (size.is_string())
      sizes.push_back(parse_size(size.get<std::string>()));
    else
      throw_not_a_graph(fmt::format("'{}' holds something that is not a size", name));
  }
  return sizes;
}

ValueId read_id(const Json& json) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<int64_t>() > INT32_MAX)
    throw_not_a_graph("a value is named by something that is not its number");
  return static_cast<ValueId>(json.get<int64_t>());
}

std::vector<GraphOperand> read_operands(const Json& json, const char* name) {
  const Json& all = member(json, name);
  if (!all.is_object()) throw_not_a_graph(fmt::format("'{}' is not an object", name));
  std::vector<GraphOperand> operands;
  for (const auto& [key, value] : all.items()) operands.push_back({key, read_id(value)});
  return operands;
}

GraphValue read_value(const Json& json) {
  GraphValue value;
  std::string kind = words(json, "kind"), dtype = words(json, "dtype");
  std::optional<DType> type = dtype_from_name(dtype);
  std::optional<ValueKind> known = value_kind_named(kind);
  if (!known) throw_not_a_graph(fmt::format("there is no kind of values '{}'", kind));
  value.kind = *known;
  if (!type) throw_not_a_graph(fmt::format("there is no dtype '{}'", dtype));
  value.dtype = *type;
  if (json.contains("name")) value.name = words(json, "name");
  value.shape = read_sizes(json, "shape");
  return value;
}

GraphNode read_node(const Json& json) {
  GraphNode node;
  if (json.is_object() && json.contains("view")) {
    std::string view = words(json, "view");
    auto found = std::find_if(kViewNames.begin(), kViewNames.end(), [&](const auto& v) { return v.first == view; });
    if (found == kViewNames.end()) throw_not_a_graph(fmt::format("there is no view '{}'", view));
    node.kind = found->second;
    if (node.kind == GraphNode::Kind::kSlice) node.starts = read_sizes(json, "starts");
  } else {
    node.op = words(json, "op");
    node.level = static_cast<int>(whole_number(json, "level"));
    node.path = words(json, "path");
    node.init = read_fields(member(json, "init"));
    if (json.contains("body")) node.body = read_id(json["body"]);
  }
  node.inputs = read_operands(json, "inputs");
  node.outputs = read_operands(json, "outputs");
  return node;
}

GraphBody read_body(const Json& json) {
  GraphBody body{words(json, "op"),
                 static_cast<int>(whole_number(json, "level")),
                 read_fields(member(json, "init")),
                 whole_number(json, "repeats"),
                 {},
                 {},
                 {},
                 {}};
  for (const Json& value : list(json, "values")) body.values.push_back(read_value(value));
  for (const Json& id : list(json, "inputs")) body.inputs.push_back(read_id(id));
  for (const Json& node : list(json, "nodes")) body.nodes.push_back(read_node(node));
  body.outputs = read_operands(json, "outputs");
  return body;
}

}  // namespace

Json graph_to_json(const Graph& whole, int level) {
  Graph graph = open_bodies(whole, level);
  Json json = {{"model", graph.model}, {"phase", phase_name(graph.phase)}};
  json["symbols"] = Json::object();
  for (SizeSymbol s : used_symbols(graph)) json["symbols"][std::string(symbol_name(s))] = symbol_words(s);
  json["bodies"] = Json::array();
  for (const GraphBody& body : graph.bodies) {
    Json one = {{"op", body.op},           {"level", body.level},
                {"repeats", body.repeats}, {"init", fields_json(body.init)},
                {"values", Json::array()}, {"inputs", body.inputs},
                {"nodes", Json::array()},  {"outputs", operands_json(body.outputs)}};
    for (const GraphValue& value : body.values) one["values"].push_back(value_json(value));
    for (const GraphNode& node : body.nodes) one["nodes"].push_back(node_json(node));
    json["bodies"].push_back(std::move(one));
  }
  return json;
}

Graph graph_from_json(const Json& json) {
  Graph graph;
  graph.model = words(json, "model");
  graph.phase = phase_from_name(words(json, "phase"));
  for (const Json& body : list(json, "bodies")) graph.bodies.push_back(read_body(body));
  check_graph(graph);
  return graph;
}

}  // namespace fk
