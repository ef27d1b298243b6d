#include "compiler/codegen/product_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/element_text.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::ExprNode;
using algebra::Primitive;

constexpr std::string_view kCopiedRows = "q0";  // the local for rows that are multiplied as they come

void add_names(const Expr& e, std::set<const ExprNode*>& seen, std::set<std::string>& names) {
  if (!seen.insert(e.id()).second) return;
  if (e.head().is(Primitive::kInput)) names.insert(e.head().name);
  for (const Expr& x : e.inputs()) add_names(x, seen, names);
}

std::set<std::string> names_in(const Expr& e) {
  std::set<const ExprNode*> seen;
  std::set<std::string> names;
  add_names(e, seen, names);
  return names;
}

bool any_of_names(const Expr& e, const std::set<std::string>& names) {
  const std::set<std::string> used = names_in(e);
  return std::any_of(used.begin(), used.end(), [&](const std::string& n) { return names.count(n) > 0; });
}

std::string with_elements(const std::string& text, const std::vector<ElementText>& elements,
                          const std::vector<std::string>& instead) {
  std::string result;
  size_t at = 0;
  for (size_t k = 0; k < elements.size(); ++k) {
    result += text.substr(at, elements[k].begin - at) + instead[k];
    at = elements[k].end;
  }
  return result + text.substr(at);
}

class ProductLowering {
 public:
  ProductLowering(ProductProgram& to, const std::set<std::string>& locals) : to_(to), locals_(locals) {}

  void run(const std::vector<algebra::NamedExpr>& results, const std::vector<Product>& products) {
    if (products.empty()) throw NoLoops("there is no product");
    to_.products = products;
    for (const Product& p : products) after_.insert(p.name);
    std::vector<algebra::NamedExpr> before;
    for (const algebra::NamedExpr& r : results) {
      if (any_of_names(r.expr, after_)) {
        after_.insert(r.name);
      } else {
        before.push_back(r);
        before_.insert(r.name);
      }
    }
    lower_rows(std::move(before));
    for (const Product& p : products)
      if (!p.output.empty()) lower_element(p.output, algebra::input(p.name, p.stored, {rows_, p.features}));
    for (const algebra::NamedExpr& r : results)
      if (after_.count(r.name) > 0) {
        const Expr whole = algebra::substitute({r.expr}, [&](const Expr& x) {
          auto found = inside_.find(x.head().name);
          return found == inside_.end() ? x : found->second;
        })[0];
        if (locals_.count(r.name) > 0)
          inside_[r.name] = whole;
        else
          lower_element(r.name, whole);
      }
    if (to_.tasks.empty()) throw NoLoops("nothing becomes of the sums");
    check_columns();
    for (const Product& p : products) {
      add_array(p.weight, {.dtype = p.dtype, .rank = 2, .dense = true});
      if (!p.bias.empty()) add_array(p.bias, {.dtype = p.dtype, .rank = 1, .dense = true});
    }
    to_.rows_of = to_.tasks[0].stores[0].element.name;
  }

 private:
  // What comes before the products, with the rows that they multiply.
  void lower_rows(std::vector<algebra::NamedExpr> before) {
    const Product& first = to_.products[0];
    to_.length = first.length;
    to_.dtype = first.dtype;
    rows_ = first.x.shape()[0];
    if (rows_ < kVaryingExtent) throw NoLoops("the number of rows is fixed");
    constexpr int64_t kElementsOfALoad = 8;
    if (first.length % kElementsOfALoad != 0) throw NoLoops("rows are no multiple of 16 bytes");
    for (const Product& p : to_.products) {
      if (any_of_names(p.x, after_)) throw NoLoops("a product multiplies what another one gives");
      if (p.x.id() != first.x.id()) throw NoLoops("products multiply different rows");
      if (p.length != first.length || p.dtype != first.dtype) throw NoLoops("weights are of different kinds");
      if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) throw NoLoops("weights are not bf16 or f16");
      if (p.x.dtype() != p.dtype) throw NoLoops("rows have another dtype than weights");
    }
    Expr x = first.x;
    while (x.head().is(Primitive::kReshape)) x = x.inputs()[0];
    if (x.head().is(Primitive::kInput) && before_.count(x.head().name) > 0) {
      to_.x = x.head().name;
    } else {
      to_.x = kCopiedRows;
      before.push_back({to_.x, x});
      before_.insert(to_.x);
    }
    to_.rows = lower_to_row_loops(before, before_);
    if (!to_.rows.refusal.empty()) throw NoLoops(to_.rows.refusal);
    if (to_.rows.nests.empty() || to_.rows.nests[0].leads[0] != rows_)
      throw NoLoops("what comes before does not run over the rows of the product");
    for (const auto& [name, use] : to_.rows.arrays) {
      if (use.written) throw NoLoops("a state is updated before the product");
      add_array(name, use);
    }
    for (const algebra::NamedExpr& r : before)
      if (locals_.count(r.name) == 0 && r.name != kCopiedRows) {
        to_.kept.push_back(r.name);
        add_array(r.name, {.dtype = r.expr.dtype(),
                           .rank = r.expr.shape().size(),
                           .written = true,
                           .dense_rows = true,
                           .dense = false});
      }
  }

  void add_array(const std::string& name, const ArrayUse& use) {
    ArrayUse& all = to_.arrays[name];
    const bool is_new = all.rank == 0;
    if (is_new) {
      all = use;
      return;
    }
    all.written = all.written || use.written;
    all.dense_rows = all.dense_rows || use.dense_rows;
    all.dense = all.dense || use.dense;
  }

  // An output whose elements are made of sums.
  void lower_element(const std::string& name, const Expr& expr) {
    std::set<std::string> locals = before_;
    for (const Product& p : to_.products) locals.insert(p.name);
    LoopProgram loops = lower_to_row_loops({{name, expr}}, locals);
    if (!loops.refusal.empty()) throw NoLoops(loops.refusal);
    if (!loops.tables.empty()) throw NoLoops("a table is read after the product");
    for (const auto& [array, use] : loops.arrays) {
      if (use.dense || use.row_axis != 0) throw NoLoops("rows are not stored in order");
      add_array(array, use);
    }
    std::vector<LoopStatement> scalars;
    for (const LoopNest& nest : loops.nests) {
      if (nest.leads[0] != rows_) throw NoLoops("what comes after does not run over the rows of the product");
      for (const LoopStatement& s : nest.statements) {
        if (s.kind == LoopStatement::Kind::kScalar)
          scalars.push_back(s);
        else if (s.kind == LoopStatement::Kind::kStore)
          add_store(nest, s, scalars);
        else
          throw NoLoops("what comes after a product is summed");
      }
    }
  }

  void add_store(const LoopNest& nest, const LoopStatement& s, const std::vector<LoopStatement>& scalars) {
    ProductTask::Store store{{}, s};
    std::string needed = s.value + " " + s.index;
    for (size_t k = scalars.size(); k-- > 0;)
      if (has_word(needed, scalars[k].name)) {
        store.scalars.insert(store.scalars.begin(), scalars[k]);
        needed += " " + scalars[k].value;
      }
    std::vector<ProductTask::Sum> sums;
    each_text(store, [&](std::string& text) {
      for (const ElementText& e : elements_of_products(text)) {
        if (ProductTask::Sum sum = sum_of(e); std::find(sums.begin(), sums.end(), sum) == sums.end())
          sums.push_back(sum);
      }
    });
    if (sums.empty()) throw NoLoops("a result of a product's region does not need it");
    ProductTask& task = task_for({nest.leads.begin() + 1, nest.leads.end()}, s.count, sums);
    each_text(store, [&](std::string& text) {
      const std::vector<ElementText> elements = elements_of_products(text);
      std::vector<std::string> instead;
      for (const ElementText& e : elements)
        instead.push_back(
            fmt::format("sum{}", std::find(task.sums.begin(), task.sums.end(), sum_of(e)) - task.sums.begin()));
      text = with_elements(text, elements, instead);
    });
    task.stores.push_back(std::move(store));
  }

  template <class Visit>
  static void each_text(ProductTask::Store& store, const Visit& visit) {
    for (LoopStatement& scalar : store.scalars) visit(scalar.value);
    visit(store.element.value);
  }

  std::vector<ElementText> elements_of_products(const std::string& text) const {
    return elements_in(text, [&](std::string_view word) {
      return std::any_of(to_.products.begin(), to_.products.end(), [&](const Product& p) { return p.name == word; });
    });
  }

  ProductTask::Sum sum_of(const ElementText& e) const {
    // The column must be known where the row of the weight is loaded.
    bool known = e.index.find('[') == e.index.npos;
    with_words(e.index, [&](std::string_view word) {
      known = known && word[0] != 'v' && word != "l0" && word.find('_') == word.npos;
      return std::string();
    });
    if (!known) throw NoLoops("a column of a product is computed");
    for (size_t p = 0; p < to_.products.size(); ++p)
      if (to_.products[p].name == e.array) return {p, e.index};
    throw NoLoops("there is no such product");
  }

  // One that computes some of these sums already, or a new one.
  ProductTask& task_for(const std::vector<int64_t>& leads, int64_t count, const std::vector<ProductTask::Sum>& sums) {
    for (ProductTask& task : to_.tasks) {
      if (task.leads != leads || task.count != count) continue;
      std::vector<ProductTask::Sum> all = task.sums;
      for (const ProductTask::Sum& s : sums)
        if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
      if (all.size() == task.sums.size() + sums.size() || all.size() > kMostSums) continue;
      task.sums = all;
      return task;
    }
    if (sums.size() > kMostSums) throw NoLoops("an element needs too many columns of the products");
    to_.tasks.push_back({leads, count, sums, {}});
    return to_.tasks.back();
  }

  // Weights are the work: no column is summed twice.
  void check_columns() const {
    int64_t columns = 0, all = 0;
    for (const Product& p : to_.products) all += p.features;
    for (const ProductTask& t : to_.tasks) columns += t.elements() * static_cast<int64_t>(t.sums.size());
    if (columns > all) throw NoLoops("a column of a product would be summed twice");
  }

  ProductProgram& to_;
  const std::set<std::string>& locals_;
  std::set<std::string> before_, after_;  // names of results
  std::map<std::string, Expr> inside_;    // results after the products that are no outputs
  int64_t rows_ = 0;
};

}  // namespace

int64_t ProductTask::elements() const {
  int64_t all = count;
  for (int64_t extent : leads) all *= extent;
  return all;
}

ProductProgram lower_products(const std::vector<algebra::NamedExpr>& results, const std::vector<Product>& products,
                              const std::set<std::string>& locals) {
  ProductProgram program;
  try {
    ProductLowering(program, locals).run(results, products);
  } catch (const NoLoops& why) {
    program = {};
    program.refusal = why.what();
  }
  return program;
}

}  // namespace fk
