#include "models/jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/jinja/arguments.h"
#include "models/jinja/python_text.h"
#include "models/unicode.h"

namespace fk::jinja {
namespace {

using StringMethod = Value (*)(const std::string& text, const Arguments& given);

Value strings(std::vector<std::string> parts) {
  List list;
  for (std::string& part : parts) list.emplace_back(std::move(part));
  return Value::list(std::move(list));
}

Value stripped(std::string_view name, const std::string& text, const Arguments& given, bool left, bool right) {
  ArgumentReader read(name, given, {"chars"});
  const Value* chars = read.find("chars");
  if (chars == nullptr || chars->is_none()) return strip(text, left, right);
  std::string set = read.text_of("chars");
  std::string_view view = set;
  return strip(text, left, right, &view);
}

Value split_method(std::string_view name, const std::string& text, const Arguments& given, bool from_right) {
  ArgumentReader read(name, given, {"sep", "maxsplit"});
  int64_t limit = read.integer("maxsplit", -1);
  const Value* separator = read.find("sep");
  if (separator == nullptr || separator->is_none()) return strings(split(text, nullptr, limit, from_right));
  std::string at = read.text_of("sep");
  if (at.empty()) throw Fault("the separator of split is empty");
  std::string_view view = at;
  return strings(split(text, &view, limit, from_right));
}

// startswith and endswith: one text or a tuple of them.
Value has_affix(std::string_view name, const std::string& text, const Arguments& given, bool at_end) {
  ArgumentReader read(name, given, {"prefix"});
  const Value& affix = read.required("prefix");
  auto has = [&](const Value& v) {
    if (v.string() == nullptr) throw Fault(fmt::format("{} takes a str, not {}", name, type_name(v)));
    return at_end ? text.ends_with(*v.string()) : text.starts_with(*v.string());
  };
  if (affix.items() != nullptr) return std::any_of(affix.items()->begin(), affix.items()->end(), has);
  return has(affix);
}

Value find_method(const std::string& text, const Arguments& given, bool from_right) {
  std::string wanted = ArgumentReader("find", given, {"sub"}).text_of("sub");
  size_t at = from_right ? text.rfind(wanted) : text.find(wanted);
  return at == text.npos ? int64_t{-1} : count_characters(std::string_view(text).substr(0, at));
}

// "{}", "{0}" and "{name}"; with what follows a colon or a dot they are refused.
Value format_method(const std::string& format, const Arguments& given) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      out += c;
      ++i;
    } else if (c == '}') {
      throw Fault("a single '}' stands in a format");
    } else if (c == '{') {
      size_t end = format.find('}', i);
      if (end == format.npos) throw Fault("a '{' of a format has no '}'");
      std::string field = format.substr(i + 1, end - i - 1);
      i = end;
      if (field.find_first_of(":!.[") != field.npos)
        throw Fault(fmt::format("the format {{{}}} is not supported; {{}}, {{0}} and {{name}} are", field));
      bool by_place = field.find_first_not_of("0123456789") == field.npos;
      if (by_place) {
        size_t place = field.empty() ? next++ : std::stoul(field.substr(0, 6));
        if (place >= given.positional.size()) throw Fault("format has fewer arguments than places");
        out += text(given.positional[place]);
      } else {
        auto found =
            std::find_if(given.named.begin(), given.named.end(), [&](const auto& a) { return a.first == field; });
        if (found == given.named.end()) throw Fault(fmt::format("format was given no '{}'", field));
        out += text(found->second);
      }
    } else {
      out += c;
    }
  }
  return out;
}

template <class Keep>
Value every_character(const std::string& text, Keep keep) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    auto [c, size] = unicode::decode_at(text, at);
    if (!keep(c)) return false;
    any = true;
    at += size;
  }
  return any;
}

Value none_given(std::string_view name, const Arguments& given, Value result) {
  ArgumentReader(name, given, {});
  return result;
}

const std::map<std::string_view, StringMethod>& string_methods() {
  static const std::map<std::string_view, StringMethod> all = {
      {"capitalize",
       [](const std::string& s, const Arguments& a) { return none_given("capitalize", a, capitalize(s)); }},
      {"count",
       [](const std::string& s, const Arguments& a) {
         std::string sub = ArgumentReader("count", a, {"sub"}).text_of("sub");
         int64_t n = sub.empty() ? count_characters(s) + 1 : 0;
         for (size_t at = 0; !sub.empty() && (at = s.find(sub, at)) != s.npos; at += sub.size()) ++n;
         return Value(n);
       }},
      {"endswith", [](const std::string& s, const Arguments& a) { return has_affix("endswith", s, a, true); }},
      {"find", [](const std::string& s, const Arguments& a) { return find_method(s, a, false); }},
      {"format", format_method},
      {"isalpha",
       [](const std::string& s, const Arguments& a) {
         static const uint32_t kLetters = unicode::category_mask("L");
         return none_given("isalpha", a,
                           every_character(s, [](char32_t c) { return (unicode::category_bit(c) & kLetters) != 0; }));
       }},
      {"isdigit",
       [](const std::string& s, const Arguments& a) {
         static const uint32_t kDigits = unicode::category_mask("Nd");
         return none_given("isdigit", a,
                           every_character(s, [](char32_t c) { return (unicode::category_bit(c) & kDigits) != 0; }));
       }},
      {"isspace",
       [](const std::string& s, const Arguments& a) { return none_given("isspace", a, every_character(s, is_space)); }},
      {"join",
       [](const std::string& s, const Arguments& a) {
         std::string out;
         List parts = elements(ArgumentReader("join", a, {"iterable"}).required("iterable"));
         for (size_t i = 0; i < parts.size(); ++i) {
           if (parts[i].string() == nullptr)
             throw Fault(fmt::format("join takes texts, and one element is {}", type_name(parts[i])));
           out += (i == 0 ? "" : s) + *parts[i].string();
         }
         return Value(out);
       }},
      {"lower", [](const std::string& s, const Arguments& a) { return none_given("lower", a, to_lower(s)); }},
      {"lstrip", [](const std::string& s, const Arguments& a) { return stripped("lstrip", s, a, true, false); }},
      {"removeprefix",
       [](const std::string& s, const Arguments& a) {
         std::string p = ArgumentReader("removeprefix", a, {"prefix"}).text_of("prefix");
         return Value(s.starts_with(p) ? s.substr(p.size()) : s);
       }},
      {"removesuffix",
       [](const std::string& s, const Arguments& a) {
         std::string p = ArgumentReader("removesuffix", a, {"suffix"}).text_of("suffix");
         return Value(s.ends_with(p) ? s.substr(0, s.size() - p.size()) : s);
       }},
      {"replace",
       [](const std::string& s, const Arguments& a) {
         ArgumentReader read("replace", a, {"old", "new", "count"});
         return Value(replace_all(s, read.text_of("old"), read.text_of("new"), read.integer("count", -1)));
       }},
      {"rfind", [](const std::string& s, const Arguments& a) { return find_method(s, a, true); }},
      {"rsplit", [](const std::string& s, const Arguments& a) { return split_method("rsplit", s, a, true); }},
      {"rstrip", [](const std::string& s, const Arguments& a) { return stripped("rstrip", s, a, false, true); }},
      {"split", [](const std::string& s, const Arguments& a) { return split_method("split", s, a, false); }},
      {"splitlines",
       [](const std::string& s, const Arguments& a) {
         return strings(split_lines(s, ArgumentReader("splitlines", a, {"keepends"}).flag("keepends", false)));
       }},
      {"startswith", [](const std::string& s, const Arguments& a) { return has_affix("startswith", s, a, false); }},
      {"strip", [](const std::string& s, const Arguments& a) { return stripped("strip", s, a, true, true); }},
      {"upper", [](const std::string& s, const Arguments& a) { return none_given("upper", a, to_upper(s)); }},
  };
  return all;
}

Value listed(const Dict& entries, bool keys, bool values) {
  List all;
  for (const auto& [key, value] : entries.items())
    all.push_back(keys && values ? Value::tuple({key, value}) : keys ? key : value);
  return Value::list(std::move(all));
}

std::optional<Value> dict_method(const Value& of, std::string_view name) {
  auto make = [&](auto f) {
    return Value::function(std::string(name), [of, f](const Arguments& a) { return f(*of.entries(), a); });
  };
  if (name == "items")
    return make([](const Dict& d, const Arguments& a) { return none_given("items", a, listed(d, true, true)); });
  if (name == "keys")
    return make([](const Dict& d, const Arguments& a) { return none_given("keys", a, listed(d, true, false)); });
  if (name == "values")
    return make([](const Dict& d, const Arguments& a) { return none_given("values", a, listed(d, false, true)); });
  if (name == "copy")
    return make([](const Dict& d, const Arguments& a) { return none_given("copy", a, Value::dict(d)); });
  if (name == "get")
    return make([](const Dict& d, const Arguments& a) {
      ArgumentReader read("get", a, {"key", "default"});
      const Value *found = d.find(read.required("key")), *otherwise = read.find("default");
      return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value::none();
    });
  return std::nullopt;
}

std::optional<Value> list_method(const Value& of, std::string_view name) {
  if (name == "count")
    return Value::function("count", [of](const Arguments& a) {
      Value wanted = ArgumentReader("count", a, {"value"}).required("value");
      return Value(static_cast<int64_t>(
          std::count_if(of.items()->begin(), of.items()->end(), [&](const Value& v) { return equal(v, wanted); })));
    });
  if (name == "index")
    return Value::function("index", [of](const Arguments& a) {
      Value wanted = ArgumentReader("index", a, {"value"}).required("value");
      for (size_t i = 0; i < of.items()->size(); ++i)
        if (equal((*of.items())[i], wanted)) return Value(static_cast<int64_t>(i));
      throw Fault(fmt::format("{} is not in the list", repr(wanted)));
    });
  return std::nullopt;
}

bool would_change(const Value& of, std::string_view name) {
  auto among = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (of.entries() != nullptr) return among({"clear", "pop", "popitem", "setdefault", "update"});
  return of.items() != nullptr && among({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
}

}  // namespace

std::optional<Value> method(const Value& of, std::string_view name) {
  if (would_change(of, name))
    return Value::function(std::string(name),
                           [type = type_name(of), name = std::string(name)](const Arguments&) -> Value {
                             throw Fault(fmt::format("{} would change a {}, which templates may not do", name, type));
                           });
  if (of.string() != nullptr) {
    auto found = string_methods().find(name);
    if (found == string_methods().end()) return std::nullopt;
    return Value::function(std::string(name),
                           [text = *of.string(), f = found->second](const Arguments& a) { return f(text, a); });
  }
  if (of.entries() != nullptr) return dict_method(of, name);
  if (of.items() != nullptr) return list_method(of, name);
  return std::nullopt;
}

}  // namespace fk::jinja
