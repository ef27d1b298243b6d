// A gated delta net for few tokens, in three launches: the first products, what belongs to heads, the output. A layer
// puts its norm before the first.
#pragma once

#include <string>

#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/recurrence/delta_net_heads.h"
#include "ops/l1/l2_norm.h"
#include "ops/l2/gated_delta_net.h"

namespace fk::cuda {

class DeltaNetLaunches {
 public:
  explicit DeltaNetLaunches(const GatedDeltaNet::Init& init) : init_(init) {}

  // Of its sizes alone.
  std::string_view refuse() const { return refuse_delta_net_heads(sizes(), init_.conv_kernel_size); }

  // Weights of the net are those whose names begin with `prefix`.
  void bind(const Operator::PartWeight& weight, const std::string& prefix) {
    qkvz_ = weight(prefix + "in_proj_qkvz.weight");
    ba_ = weight(prefix + "in_proj_ba.weight");
    conv_ = weight(prefix + "conv1d.weight");
    a_log_ = weight(prefix + "A_log");
    dt_bias_ = weight(prefix + "dt_bias");
    norm_ = weight(prefix + "norm.weight");
    out_ = weight(prefix + "out_proj.weight");
  }

  // make(columns): rows that lie between the launches.
  template <class Make>
  DeltaNetHeads heads(const Make& make) const {
    DeltaNetHeads heads = sizes();
    heads.qkvz = make(2 * (init_.keys() + init_.values()));
    heads.ba = make(2 * init_.num_v_heads);
    heads.out = make(init_.values());
    heads.conv_weight = conv_;
    heads.a_log = a_log_;
    heads.dt_bias = dt_bias_;
    heads.norm_weight = norm_;
    return heads;
  }

  // The products of the first launch, whose rows are x or those of the group's prologue.
  void add_products(StreamGroup& group, const DeltaNetHeads& heads, const OptView& x) const {
    group.products.add({.weight = qkvz_, .out = heads.qkvz, .x = x});
    group.products.add({.weight = ba_, .out = heads.ba, .x = x});
  }
  StreamGroup output(const DeltaNetHeads& heads, const View& out) const {
    StreamGroup group;
    group.products.add({.weight = out_, .out = out, .x = heads.out});
    return group;
  }

  const View& output_weight() const { return out_; }

 private:
  DeltaNetHeads sizes() const {
    DeltaNetHeads heads;
    heads.num_k_heads = init_.num_k_heads;
    heads.num_v_heads = init_.num_v_heads;
    heads.head_k_dim = init_.head_k_dim;
    heads.head_v_dim = init_.head_v_dim;
    heads.key_eps = L2Norm::Init{}.eps;
    heads.norm_eps = init_.norm_eps;
    return heads;
  }

  const GatedDeltaNet::Init init_;
  View qkvz_, ba_, conv_, a_log_, dt_bias_, norm_, out_;
};

}  // namespace fk::cuda
