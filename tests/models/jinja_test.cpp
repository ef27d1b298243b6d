// Templates as Jinja renders them; the expected texts are transformers' own.
#include "models/jinja/template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "models/jinja/json.h"
#include "tests/models/error_text.h"

namespace fk::jinja {
namespace {

constexpr std::string_view kNames =
    R"t({"a": 3, "b": -7, "f": 1.5, "s": "Hello World", "u": "straße ÉCOLE ǆ", "l": [3, 1, 2], "d": {"b": 1, "A": 2, "c": null}, "t": "  x\n y  \n", "m": [{"n": "x", "v": 1}, {"n": "Y", "v": 2}, {"v": 3}], "none": null, "yes": true, "e": [], "big": 1e+22})t";

struct Rendered {
  const char* source;
  const char* text;
};
// clang-format off
const Rendered kRendered[] = {
    {R"t({{ a + b * 2 - 4 // 3 }}|{{ b // 2 }}|{{ b % 3 }}|{{ 2 ** 3 ** 1 }}|{{ 7 / 2 }}|{{ -a }}|{{ f * 2 }}|{{ big }})t",
     "-12|-4|2|8|3.5|-3|3.0|1e+22"},
    {R"t({{ 1 < a <= 3 }}|{{ a == 3.0 }}|{{ 'x' in 'axb' }}|{{ 5 not in l }}|{{ not a }}|{{ a and s }}|{{ none or 'z' }})t",
     "True|True|True|True|False|Hello World|z"},
    {R"t({{ s[0] }}{{ s[-1] }}{{ s[2:5] }}{{ s[::-1] }}{{ l[1:] }}{{ l[-5:2] }}{{ l[::2] }})t",
     "HdllodlroW olleH[1, 2][3, 1][3, 2]"},
    {R"t({{ u|upper }}|{{ u|lower }}|{{ u|title }}|{{ u|capitalize }})t",
     "STRASSE ÉCOLE Ǆ|straße école ǆ|Straße École Ǆ|Straße école ǆ"},
    {R"t({{ t|trim }}|{{ t|indent(2) }}|{{ t|indent(2, true) }}|{{ s|replace('l', 'L') }})t",
     "x\n y|  x\n   y  \n|    x\n   y  \n|HeLLo WorLd"},
    {R"t({{ l|sort }}|{{ l|sort(reverse=true) }}|{{ d|dictsort }}|{{ l|min }}{{ l|max }}{{ l|sum }}{{ l|join('-') }})t",
     "[1, 2, 3]|[3, 2, 1]|[('A', 2), ('b', 1), ('c', None)]|1363-1-2"},
    {R"t({{ m|map(attribute='n')|list }}|{{ m|selectattr('v', 'gt', 1)|map(attribute='v')|join(',') }}|{{ m|rejectattr('n', 'defined')|list }})t",
     "['x', 'Y', Undefined]|2,3|[{'v': 3}]"},
    {R"t({{ d|tojson }}|{{ m|tojson(indent=2) }}|{{ u|tojson }}|{{ u|tojson(ensure_ascii=true) }}|{{ [1.0, none, yes]|tojson(separators=(',', ':')) }})t",
     "{\"b\": 1, \"A\": 2, \"c\": null}|[\n  {\n    \"n\": \"x\",\n    \"v\": 1\n  },\n  {\n    \"n\": \"Y\",\n    \"v\": 2\n  },\n  {\n    \"v\": 3\n  }\n]|\"straße ÉCOLE ǆ\"|\"stra\\u00dfe \\u00c9COLE \\u01c6\"|[1.0,null,true]"},
    {R"t({% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %})t",
     "1/3:3, 2/3:1, 3/3:2"},
    {R"t({% for x in e %}x{% else %}empty{% endfor %})t",
     "empty"},
    {R"t({% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %})t",
     "b=1;A=2;c=None;"},
    {R"t({% for x in l if x > 1 %}{{ loop.index0 }}{{ x }}{{ loop.nextitem }} {% endfor %})t",
     "032 12 "},
    {R"t({% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }})t",
     "4 2 3 1"},
    {R"t({% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }})t",
     "6"},
    {R"t({% macro f(x, y=2) %}<{{ x }}:{{ y }}>{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(y=5, x=4) }}{{ f() }})t",
     "<1:2><1:3><4:5><:2>"},
    {R"t({% macro box(n) %}[{{ caller(n) }}]{% endmacro %}{% call(k) box(7) %}k={{ k }}{% endcall %})t",
     "[k=7]"},
    {R"t({% filter upper %}abc{% endfilter %}{% set v %}in {{ a }}{% endset %}{{ v }}{% set w | upper %}in {{ a }}{% endset %}{{ w }})t",
     "ABCin 3IN 3"},
    {R"t({% with z = a, y = 5 %}{{ z + y }}{% endwith %}{{ z }})t",
     "8"},
    {R"t({% for i in range(6) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %})t",
     "023"},
    {R"t({% generation %}text{% endgeneration %}{# comment #}{% raw %}{{ raw }}{% endraw %})t",
     "text{{ raw }}"},
    {R"t({{ 'yes' if a else 'no' }}|{{ 'yes' if not a }}|{{ x is defined }}|{{ s is string }}{{ d is mapping }}{{ l is sequence }}{{ none is none }}{{ a is odd }}{{ a is divisibleby 3 }})t",
     "yes||False|TrueTrueTrueTrueTrueTrue"},
    {R"t({{ missing }}|{{ missing is undefined }}|{{ missing|default('d') }}|{{ none|default('d') }}|{{ none|default('d', true) }}|{{ d.zz }}|{{ d['zz'] is defined }})t",
     "|True|d|None|d||False"},
    {R"t({{ s.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' x '.strip() }}|{{ s.startswith('He') }}|{{ s.endswith(('x', 'ld')) }}|{{ s.upper() }}|{{ s.find('o') }}|{{ s.replace('o', '0', 1) }})t",
     "['Hello', 'World']|['a', 'b', '', 'c']|['a,b', 'c']|x|True|True|HELLO WORLD|4|Hell0 World"},
    {R"t({{ "q'\"\\ \t\u00e9" }}|{{ ["q'", 'p"', 1.0, 1e-7, 123456789.0, 1e16]|string }}|{{ {'k': (1,)} }})t",
     "q'\"\\ \té|[\"q'\", 'p\"', 1.0, 1e-07, 123456789.0, 1e+16]|{'k': (1,)}"},
    {R"t({{ 'a' ~ 1 ~ none }}|{{ 'ab' * 2 }}|{{ [1] * 2 + [3] }}|{{ '%s' }}|{{ '{} and {x}'.format(1, x=2) }})t",
     "a1None|abab|[1, 1, 3]|%s|1 and 2"},
    {R"t({{ (l|select('odd')) and 'generators are true' }}|{{ e|select('odd')|list }}|{{ e and 'x' }}|{{ none|map('upper')|list }})t",
     "generators are true|[]|[]|[]"},
    {R"t({{ '<'|safe + '<' }}|{{ '<'|e }}|{{ '<' ~ '<'|safe }}|{{ '3'|int + 1 }}|{{ 'x'|int(9) }}|{{ '2.7'|int }}|{{ '2.5'|float }}|{{ 2.5|round }}|{{ 3.14159|round(2) }}|{{ 7|string + '!' }})t",
     "<&lt;|&lt;|<<|4|9|2|2.5|2.0|3.14|7!"},
    {R"t({{ l|first }}{{ l|last }}{{ l|reverse|list }}{{ 'abc'|reverse }}{{ l|length }}{{ s|count }}{{ ['b', 'A', 'a']|unique|join }}{{ ['b', 'A']|sort|join }}{{ 'a b c'|wordcount }}{{ -3|abs }})t",
     "32[2, 1, 3]cba311bAAb33"},
    {R"t(   {%- if a %}  left {%- endif %}  
  {% if a %}
  body
  {% endif %}
end)t",
     "  left  \n  body\nend"},
    {R"t({%+ if a %}plus{% endif +%}
x
{{- ' y ' -}}
z)t",
     "plus\nx y z"},
};
// clang-format on

Dict names() { return *from_json(parse_json(kNames, "the names")).entries(); }

std::string render(std::string_view source) { return Template(source, "t").render(names(), 0); }

TEST(Jinja, RendersAsTransformersDoes) {
  for (const Rendered& r : kRendered) EXPECT_EQ(render(r.source), r.text) << r.source;
}

TEST(Jinja, SaysWhatIsWrongAndWhere) {
  const Rendered kRefused[] = {
      {"a\n{% include 'x' %}", "t, line 2: the tag 'include' is not supported."},
      {"{% for x in l recursive %}{% endfor %}", "t, line 1: recursive loops are not supported."},
      {"{{ 1 / 0 }}", "t, line 1: a number is divided by zero."},
      {"\n\n{{ missing.x }}", "t, line 3: 'missing' is undefined."},
      {"{{ s | nosuch }}", "t, line 1: the filter 'nosuch' is not supported."},
      {"{{ a is nosuch }}", "t, line 1: the test 'nosuch' is not supported."},
      {"{% if a %}", "t, line 1: {% endif %} is missing."},
      {"{% endif %}", "t, line 1: the tag 'endif' has no beginning."},
      {"{{ a", "t, line 1: a tag has no end: \"}}\" is missing."},
      {"{{ 'a' + 1 }}", "t, line 1: '+' does not work between str and int."},
      {"{% for x in 3 %}{% endfor %}", "t, line 1: int cannot be iterated over."},
      {"{{ l.append(1) }}", "t, line 1: append would change a list, which templates may not do."},
      {"{{ raise_exception('no') }}", "The chat template refuses this conversation: no"},
      {"{{ missing | tojson }}", "t, line 1: 'missing' is undefined and cannot be written as JSON."},
      {"{% break %}", "t, line 1: 'break' is outside of a loop."},
      {"{% set true = 1 %}", "t, line 1: nothing can be assigned to 'true'."},
      {"\xff", "t is not valid UTF-8."},
  };
  for (const Rendered& r : kRefused) EXPECT_EQ(error_of([&] { render(r.source); }), r.text) << r.source;
}

// A template comes from the internet: none may run for ever, use up the stack or fill the memory.
TEST(Jinja, StopsTemplatesThatDoNotEnd) {
  std::string nested(500, '(');
  for (const std::string& source :
       {std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), std::string("{{ range(10 ** 9) }}"),
        "{{ " + nested + " }}", std::string("{{ 'x' * 10 ** 12 }}"), std::string("{{ [1] * 10 ** 12 }}"),
        std::string("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        std::string("{{ 9223372036854775807 + 1 }}")})
    EXPECT_NE(error_of([&] { render(source); }), "(no error)") << source.substr(0, 60);
}

// Real templates and what transformers makes of them, written by tools/golden/chat_templates.py.
TEST(Jinja, RendersRealTemplates) {
  const char* path = std::getenv("FASTKERNELS_CHAT_CASES");
  if (path == nullptr) GTEST_SKIP() << "run tools/golden/chat_templates.py, which sets FASTKERNELS_CHAT_CASES";
  std::ifstream file(path);
  int64_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    Json one = parse_json(line, "a case");
    std::string name = one.at("name");
    auto render_it = [&] {
      return Template(one.at("template").get<std::string>(), name)
          .render(*from_json(one.at("names")).entries(), one.at("now").get<int64_t>());
    };
    if (one.at("text").is_null())
      EXPECT_NE(error_of([&] { render_it(); }), "(no error)") << name;
    else
      EXPECT_EQ(render_it(), one.at("text").get<std::string>()) << name;
  }
  EXPECT_GT(count, 1000);
}

}  // namespace
}  // namespace fk::jinja
