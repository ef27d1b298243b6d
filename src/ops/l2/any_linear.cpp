#include "ops/l2/any_linear.h"

#include "core/error.h"
#include "ops/formats/format_map.h"
#include "ops/l1/quantised_linear.h"

namespace fk {
namespace {

struct Product {
  const OperatorInfo& info;
  Fields init;
};

Product product_of(const Linear::Init& linear, const std::string& weight_format) {
  if (weight_format.empty()) return {Registry::instance().at(Linear::kName), to_fields(linear)};
  size_t parts = std::max<size_t>(linear.output_sizes.size(), 1);
  std::vector<std::string> formats = formats_of_parts(weight_format, parts);
  std::string_view op = product_of_format(formats[0]);
  for (const std::string& format : formats)
    if (product_of_format(format) != op)
      throw Error("{} and {} cannot be multiplied at once; give stacked matrices formats of one kind.", formats[0],
                  format);
  // All operators on quantised matrices have the same constructor arguments.
  return {Registry::instance().at(op), to_fields(QuantisedLinearInit{.in_features = linear.in_features,
                                                                     .out_features = linear.out_features,
                                                                     .bias = linear.bias,
                                                                     .float_output = linear.float_output,
                                                                     .output_sizes = linear.output_sizes,
                                                                     .weight_format = weight_format,
                                                                     .dtype = linear.dtype})};
}

}  // namespace

Cost product_cost(const Linear::Init& linear, const std::string& weight_format, const Workload& w) {
  Product product = product_of(linear, weight_format);
  return product.info.cost(product.init, w);
}

Tolerance product_tolerance(const Linear::Init& linear, const std::string& weight_format, DType dtype) {
  Product product = product_of(linear, weight_format);
  return product.info.tolerance(product.init, dtype);
}

AnyLinear::AnyLinear(Builder& builder, const Linear::Init& linear, const std::string& weight_format) {
  Product product = product_of(linear, weight_format);
  product_ = product.info.build_child(builder, "", product.init);
}

void AnyLinear::into(Context& ctx, const View& x, const View& out) const {
  const OptView args[] = {x, out};
  Arena::Mark scratch = ctx.arena.mark();
  product_->call(ctx, args);
  ctx.arena.release(scratch);
}

View AnyLinear::operator()(Context& ctx, const View& x) const {
  const OptView given[] = {x};
  View out = ctx.arena.make(*product_->outputs(given).specs[0]);
  into(ctx, x, out);
  return out;
}

}  // namespace fk
