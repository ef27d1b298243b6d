// Reads scenario files (scenario_file.h). Every error has its position in the file.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "bench/scenarios/scenario_file.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/input_file.h"

namespace fk {
namespace {

// "; nearest is 'hidden_size'", or nothing where no name is near.
std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  std::vector<std::string> close = closest_names(name, names, 1);
  return close.empty() ? "" : fmt::format("; nearest is '{}'", close[0]);
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  std::vector<Scenario> read(const std::string& text) const {
    YAML::Node root;
    try {
      std::vector<YAML::Node> documents = YAML::LoadAll(text);
      if (!documents.empty()) root = documents[0];
      for (size_t i = 1; i < documents.size(); ++i)
        if (!documents[i].IsNull())
          fail(documents[i],
               "a second YAML document begins here; put all scenarios under one, or in files of their own");
    } catch (const YAML::ParserException& e) {
      throw Error("{}:{}:{}: this is not YAML: {}.", path_, e.mark.line + 1, e.mark.column + 1, e.msg);
    }
    std::vector<Scenario> scenarios;
    if (!root.IsMap()) fail(root, "a file of scenarios begins with the name of an operator and a colon");
    for (const auto& item : root) {
      const OperatorInfo& info = operator_named(item.first);
      if (!item.second.IsSequence()) fail(item.second, "an operator needs a list of scenarios");
      size_t first = scenarios.size();
      for (const YAML::Node& node : item.second) {
        Scenario s = scenario(info, node);
        for (size_t i = first; i < scenarios.size(); ++i)
          if (scenarios[i].name == s.name) fail(node, "the name '{}' is taken by a scenario above", s.name);
        scenarios.push_back(std::move(s));
      }
    }
    return scenarios;
  }

 private:
  template <class... A>
  [[noreturn]] void fail(const YAML::Node& node, fmt::format_string<A...> format, A&&... args) const {
    YAML::Mark mark = node.Mark();
    // An empty file has no position: errors point to its beginning.
    throw Error("{}:{}:{}: {}.", path_, std::max(mark.line + 1, 1), std::max(mark.column + 1, 1),
                fmt::format(format, std::forward<A>(args)...));
  }

  template <class T>
  T value(const YAML::Node& node, std::string_view what) const {
    if (node.IsScalar()) {
      T result;
      bool read = YAML::convert<T>::decode(node, result);
      if constexpr (std::is_same_v<T, double>) read = read && std::isfinite(result);
      if (read) return result;
    }
    fail(node, "{} must be {}", what,
         std::is_same_v<T, bool>      ? "true or false"
         : std::is_same_v<T, int64_t> ? "a whole number"
         : std::is_same_v<T, double>  ? "a number"
                                      : "a word");
  }

  std::vector<int64_t> integers(const YAML::Node& node, std::string_view what) const {
    if (!node.IsSequence()) fail(node, "{} must be a list of whole numbers", what);
    std::vector<int64_t> list;
    for (const YAML::Node& item : node) list.push_back(value<int64_t>(item, what));
    return list;
  }

  const OperatorInfo& operator_named(const YAML::Node& node) const {
    auto name = value<std::string>(node, "the name of an operator");
    if (const OperatorInfo* info = Registry::instance().find(name)) return *info;
    std::vector<std::string> names;
    for (const OperatorInfo* op : Registry::instance().operators()) names.emplace_back(op->name);
    fail(node, "there is no operator '{}'{}", name, nearest(name, names));
  }

  // The value of a key, and an error for unknown keys.
  using Handlers = std::vector<std::pair<std::string, std::function<void(const YAML::Node&)>>>;
  void each_key(const YAML::Node& node, std::string_view what, const Handlers& handlers) const {
    if (!node.IsMap()) fail(node, "{} must be a list of names with values", what);
    std::vector<std::string> seen;
    for (const auto& item : node) {
      auto key = value<std::string>(item.first, "a key");
      auto handler = std::find_if(handlers.begin(), handlers.end(), [&](const auto& h) { return h.first == key; });
      if (handler == handlers.end()) {
        std::vector<std::string> names;
        for (const auto& h : handlers) names.push_back(h.first);
        fail(item.first, "{} has no '{}'{}", what, key, nearest(key, names));
      }
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) fail(item.first, "'{}' is there twice", key);
      seen.push_back(key);
      handler->second(item.second);
    }
  }

  Scenario scenario(const OperatorInfo& info, const YAML::Node& node) const {
    Scenario s;
    s.op = info.name;
    s.init = info.default_init();
    const YAML::Node* inputs = nullptr;
    YAML::Node inputs_node;
    each_key(node, "a scenario",
             {{"name", [&](const YAML::Node& n) { s.name = value<std::string>(n, "name"); }},
              {"models",
               [&](const YAML::Node& n) {
                 if (!n.IsSequence()) fail(n, "models must be a list of names");
                 for (const YAML::Node& m : n) s.models.push_back(value<std::string>(m, "a model"));
               }},
              {"tp", [&](const YAML::Node& n) { s.tp = value<int64_t>(n, "tp"); }},
              {"also_tp", [&](const YAML::Node& n) { s.also_tp = integers(n, "also_tp"); }},
              {"count", [&](const YAML::Node& n) { s.count = value<int64_t>(n, "count"); }},
              {"init", [&](const YAML::Node& n) { fields(n, s.init, fmt::format("the constructor of {}", s.op)); }},
              {"workload", [&](const YAML::Node& n) { workload(n, s.workload); }},
              {"block_table", [&](const YAML::Node& n) { s.block_table = golden(n); }},
              {"inputs", [&](const YAML::Node& n) {
                 inputs_node.reset(n);
                 inputs = &inputs_node;
               }}});
    if (s.name.empty()) fail(node, "a scenario needs a name");
    if (s.count < 1) fail(node, "count must be 1 or more");
    check(info, s, node);
    if (inputs != nullptr) overrides(info, *inputs, s);
    return s;
  }

  // The operator itself checks its constructor arguments.
  void check(const OperatorInfo& info, const Scenario& s, const YAML::Node& node) const {
    Inputs inputs;
    try {
      inputs = info.inputs(s.init, s.workload);
    } catch (const Error& e) {
      std::string sentence = e.what();
      if (sentence.ends_with('.')) sentence.pop_back();
      fail(node, "{}", sentence);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && std::ranges::any_of(inputs[i]->spec.shape.extents(), [](int64_t n) { return n < 0; }))
        fail(node, "init and workload make {} of shape {}, and a size cannot be negative", info.args[i].name,
             inputs[i]->spec.shape.str());
  }

  // Values are read as the type the operator's own default has.
  void fields(const YAML::Node& node, Fields& known, const std::string& what) const {
    Handlers handlers;
    for (Field& f : known)
      handlers.emplace_back(f.name, [this, &f](const YAML::Node& n) {
        std::visit(
            [&](auto& v) {
              using V = std::remove_cvref_t<decltype(v)>;
              if constexpr (std::is_same_v<V, Fields>)
                fields(n, v, f.name);
              else if constexpr (std::is_same_v<V, std::vector<int64_t>>)
                v = integers(n, f.name);
              else
                v = value<V>(n, f.name);
            },
            f.value);
        if (f.name == "dtype") dtype(n);
      });
    each_key(node, what, handlers);
  }

  DType dtype(const YAML::Node& node) const {
    auto name = value<std::string>(node, "dtype");
    if (auto found = dtype_from_name(name)) return *found;
    std::vector<std::string> names;
    for (DType t : kAllDTypes) names.emplace_back(dtype_name(t));
    fail(node, "there is no dtype '{}'{}", name, nearest(name, names));
  }

  void workload(const YAML::Node& node, Workload& w) const {
    auto number = [&](int64_t& into, const char* what) {
      return [this, &into, what](const YAML::Node& n) {
        into = value<int64_t>(n, what);
        if (into < 0) fail(n, "{} cannot be negative", what);
      };
    };
    each_key(node, "a workload",
             {{"sequences", [&](const YAML::Node& n) { sequences(n, w); }},
              {"dtype", [&](const YAML::Node& n) { w.dtype = dtype(n); }},
              {"optional_inputs", [&](const YAML::Node& n) { w.optional_inputs = value<bool>(n, "optional_inputs"); }},
              {"width", number(w.width, "width")},
              {"kv_heads", number(w.kv_heads, "kv_heads")},
              {"picks", number(w.picks, "picks")},
              {"blocks", number(w.blocks, "blocks")},
              {"page_size", [&](const YAML::Node& n) {
                 number(w.page_size, "page_size")(n);
                 constexpr int64_t kMost = int64_t{1} << 16;
                 if (w.page_size == 0 || w.page_size > kMost || (w.page_size & (w.page_size - 1)) != 0)
                   fail(n, "page_size must be a power of two from 1 to {}", kMost);
               }}});
  }

  void sequences(const YAML::Node& node, Workload& w) const {
    constexpr int64_t kMost = int64_t{1} << 24;  // of tokens and of sequences: a larger number is a typing error
    w.sequences.clear();
    if (!node.IsSequence()) fail(node, "sequences must be a list of [new tokens, tokens in the cache]");
    for (const YAML::Node& item : node) {
      std::vector<int64_t> numbers = integers(item, "a sequence");
      if (numbers.size() == 2) numbers.push_back(1);
      bool valid = numbers.size() == 3 && numbers[2] >= 1;
      for (int64_t n : numbers) valid = valid && n >= 0 && n <= kMost;
      if (!valid || w.num_sequences() + numbers[2] > kMost)
        fail(item,
             "a sequence is [new tokens, tokens in the cache] or [new tokens, tokens in the cache, how many such]");
      w.sequences.insert(w.sequences.end(), static_cast<size_t>(numbers[2]), {numbers[0], numbers[1]});
    }
  }

  // "file#tensor", the file beside this one.
  std::string golden(const YAML::Node& node) const {
    auto text = value<std::string>(node, "golden");
    size_t hash = text.rfind('#');
    if (hash == std::string::npos || hash == 0 || hash + 1 == text.size())
      fail(node, "a golden tensor is given as file#tensor, not as '{}'", text);
    return (std::filesystem::path(path_).parent_path() / text).string();
  }

  void overrides(const OperatorInfo& info, const YAML::Node& node, Scenario& s) const {
    Inputs inputs = info.inputs(s.init, s.workload);
    Handlers handlers;
    for (size_t i = 0; i < inputs.size(); ++i)
      handlers.emplace_back(info.args[i].name, [&, i](const YAML::Node& n) {
        std::string name(info.args[i].name);
        if (!inputs[i]) fail(n, "'{}' is optional and this workload leaves it out; set optional_inputs: true", name);
        const TensorSpec& spec = inputs[i]->spec;
        ArgumentOverride o{.name = name};
        each_key(n, fmt::format("argument '{}'", name),
                 {{"shape",
                   [&](const YAML::Node& v) {
                     std::vector<int64_t> shape = integers(v, "shape");
                     if (!std::ranges::equal(shape, spec.shape.extents()))
                       fail(v, "'{}' has the shape {} by init and workload; correct one of them", name,
                            spec.shape.str());
                   }},
                  {"dtype",
                   [&](const YAML::Node& v) {
                     if (dtype(v) != spec.dtype)
                       fail(v, "'{}' is {} by init and workload; correct one of them", name, dtype_name(spec.dtype));
                   }},
                  {"generator",
                   [&](const YAML::Node& v) {
                     auto text = value<std::string>(v, "generator");
                     o.generator = generator_from_text(text);
                     if (!o.generator)
                       fail(v, "'{}' is no generator; write normal(0, 1), integers(0, 9) or the like", text);
                     Generator own = inputs[i]->generator;
                     own.c = o.generator->c;
                     if (o.generator->is_routing() && !(*o.generator == own))
                       fail(v, "'{}' does not fit '{}'; only the last number of {} may be another", text, name,
                            generator_text(inputs[i]->generator));
                   }},
                  {"strides",
                   [&](const YAML::Node& v) {
                     o.strides = integers(v, "strides");
                     if (static_cast<int>(o.strides.size()) != spec.shape.rank())
                       fail(v, "'{}' has {} dimensions and needs as many strides", name, spec.shape.rank());
                   }},
                  {"golden", [&](const YAML::Node& v) { o.golden = golden(v); }}});
        if (o.generator || !o.strides.empty() || !o.golden.empty()) s.overrides.push_back(std::move(o));
      });
    each_key(node, fmt::format("the call of {}", s.op), handlers);
  }

  std::string path_;
};

std::string scenario_text(const std::string& path) {
  return read_file(path, fmt::format("'{}'", path), "; check the path, or make it with `fastkernels generate-inputs`");
}

}  // namespace

std::vector<Scenario> parse_scenarios(const std::string& text, const std::string& path) {
  return Reader(path).read(text);
}

std::vector<Scenario> read_scenarios(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return parse_scenarios(scenario_text(path), path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) throw Error("There is no .yaml file in '{}'; make some with `fastkernels generate-inputs`.", path);
  std::vector<Scenario> all;
  for (const fs::path& file : files)
    for (Scenario& s : parse_scenarios(scenario_text(file.string()), file.string())) all.push_back(std::move(s));
  return all;
}

}  // namespace fk
