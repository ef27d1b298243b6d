#include "ops/materialize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>

#include "core/element_rows.h"
#include "core/normals.h"
#include "core/rng.h"
#include "core/thread_pool.h"
#include "ops/fan_in.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

// 0 .. n-1 in an order drawn from the stream.
std::vector<int64_t> shuffled(int64_t n, const Stream& stream) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)],
              order[stream.below(static_cast<uint64_t>(i), static_cast<uint64_t>(i + 1))]);
  return order;
}

template <class T>
View store(std::vector<Tensor>& owned, const std::vector<T>& values, const Shape& shape) {
  owned.emplace_back(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), owned.back().ptr<T>());
  return owned.back();
}

SequenceGroup make_group(std::vector<Tensor>& owned, std::span<const Sequence> sequences,
                         std::span<const std::vector<int32_t>> tables, int64_t width,
                         std::span<const int32_t> state_slots) {
  std::vector<int32_t> cu_q{0}, cu_k{0}, lens, table;
  for (size_t i = 0; i < sequences.size(); ++i) {
    auto len = static_cast<int32_t>(sequences[i].query_len + sequences[i].context_len);
    cu_q.push_back(cu_q.back() + static_cast<int32_t>(sequences[i].query_len));
    cu_k.push_back(cu_k.back() + len);
    lens.push_back(len);
    for (int64_t b = 0; b < width; ++b)
      table.push_back(b < static_cast<int64_t>(tables[i].size()) ? tables[i][static_cast<size_t>(b)] : 0);
  }
  auto n = static_cast<int64_t>(sequences.size());
  SequenceGroup g;
  g.num_sequences = n;
  g.num_tokens = cu_q.back();
  g.cu_seqlens_q = store(owned, cu_q, {n + 1});
  g.cu_seqlens_k = store(owned, cu_k, {n + 1});
  g.seq_lens = store(owned, lens, {n});
  g.block_table = store(owned, table, {n, width});
  g.state_slots = store(owned, std::vector<int32_t>(state_slots.begin(), state_slots.end()), {n});
  return g;
}

// One to three neighbours of a number above it, in a dtype.
double raised(double x, DType dtype, uint32_t neighbours) {
  return x == 0 ? x : x + neighbours * std::ldexp(dtype_epsilon(dtype), std::ilogb(x));
}

void fill_normal(const View& view, double mean, double deviation, const Stream& stream, double multiples_of = 0,
                 bool with_neighbours = false) {
  constexpr int64_t kLarge = int64_t{1} << 16;  // from this size on (about 4 ms of work) starting threads pays off
  auto* address = static_cast<std::byte*>(view.data());
  size_t step = dtype_size(view.dtype());
  const Stream choices(stream.key() ^ 0x6e656967u);  // not the numbers of which the values are made
  ThreadPool pool(view.numel() >= kLarge ? std::min(usable_cores(), 8) : 1);
  pool.parallel_for(view.numel(), kLarge / 8, [&](int64_t begin, int64_t end) {
    std::array<double, 256> values;
    for (int64_t first = begin; first < end; first += std::ssize(values)) {
      int64_t n = std::min(end - first, std::ssize(values));
      const std::span<double> some(values.data(), static_cast<size_t>(n));
      fill_normals(stream, static_cast<uint64_t>(first), some);
      for (double& value : some) {
        value = mean + deviation * value;
        if (multiples_of != 0) value = multiples_of * std::round(value / multiples_of);
      }
      for (size_t i = 0; with_neighbours && i < some.size(); ++i)
        if (const uint32_t r = choices.u32(static_cast<uint64_t>(first) + i); r % 2 == 0)
          some[i] = raised(some[i], view.dtype(), 1 + r / 2 % 3);
      store_elements(address + static_cast<size_t>(first) * step, view.dtype(), 1, n, values.data());
    }
  });
}

// The stream does not depend on the argument's name: all arguments of a call describe one routing.
void fill_routing(const View& view, const Generator& g, uint64_t seed, const BatchMetadata& batch) {
  Routing routing =
      make_routing(static_cast<int64_t>(g.a), static_cast<int64_t>(g.b), batch.positions().size(0), g.c, seed);
  using Kind = Generator::Kind;
  std::vector<int32_t>& values = g.kind == Kind::kTopkIds     ? routing.topk_ids
                                 : g.kind == Kind::kSortedIds ? routing.sorted_ids
                                                              : routing.offsets;
  FK_CHECK(static_cast<int64_t>(values.size()) == view.numel(), "routing of another shape than its argument");
  copy_elements(View(values.data(), view.shape(), DType::kI32), view);
}

// A matrix of the numbers that one of elements would have, rounded to its format.
void fill_quantised(const View& bytes, const WeightFormat& format, const Stream& stream) {
  int64_t columns = format.row_elements(bytes.size(-1));
  Tensor values({bytes.numel() / bytes.size(-1), columns}, DType::kF32);
  fill_normal(values, 0, 1.0 / std::sqrt(static_cast<double>(columns)), stream);
  quantise(format, values.ptr<float>(), values.view().numel(), static_cast<std::byte*>(bytes.data()));
}

}  // namespace

BatchMetadata::BatchMetadata(const Workload& workload, uint64_t seed) {
  std::vector<int64_t> order = shuffled(cache_blocks(workload), Stream(seed, "block order"));
  std::vector<std::vector<int32_t>> tables;
  size_t next = 0;
  for (const Sequence& s : workload.sequences) {
    tables.emplace_back();
    for (int64_t b = 0; b * workload.page_size < s.query_len + s.context_len; ++b)
      tables.back().push_back(static_cast<int32_t>(order[next++]));
  }
  lay_out(workload, tables, seed);
}

BatchMetadata::BatchMetadata(const Workload& workload, const std::vector<std::vector<int32_t>>& tables, uint64_t seed) {
  FK_CHECK(tables.size() == workload.sequences.size());
  lay_out(workload, tables, seed);
}

void BatchMetadata::lay_out(const Workload& workload, std::span<const std::vector<int32_t>> tables, uint64_t seed) {
  const int64_t page = workload.page_size;
  FK_CHECK(page > 0 && (page & (page - 1)) == 0, "a page must hold a power of two of tokens");
  std::vector<int64_t> slots, positions, logits;
  for (size_t i = 0; i < tables.size(); ++i) {
    const Sequence& s = workload.sequences[i];
    const std::vector<int32_t>& table = tables[i];
    int64_t len = s.query_len + s.context_len;
    FK_CHECK(static_cast<int64_t>(table.size()) * page >= len);
    for (int64_t p = s.context_len; p < len; ++p) {
      positions.push_back(p);
      slots.push_back(table[static_cast<size_t>(p / page)] * page + p % page);
    }
    if (s.query_len > 0) logits.push_back(static_cast<int64_t>(positions.size()) - 1);
  }
  std::span<const Sequence> all(workload.sequences);
  size_t decodes = 0;
  while (decodes < all.size() && all[decodes].query_len == 1 && all[decodes].context_len > 0) ++decodes;
  int64_t width = blocks_per_sequence(workload);
  std::vector<int64_t> order = shuffled(state_slots(workload), Stream(seed, "state slots"));
  std::vector<int32_t> own_slots(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(all.size()));
  std::span<const int32_t> of_all(own_slots);
  all_ = make_group(owned_, all, tables, width, of_all);
  metadata_.decode = make_group(owned_, all.first(decodes), tables.first(decodes), width, of_all.first(decodes));
  metadata_.prefill = make_group(owned_, all.subspan(decodes), tables.subspan(decodes), width, of_all.subspan(decodes));
  metadata_.page_size = page;
  auto tokens = static_cast<int64_t>(positions.size());
  metadata_.slot_mapping = store(owned_, slots, {tokens});
  logits_indices_ = store(owned_, logits, {static_cast<int64_t>(logits.size())});
  positions_ = store(owned_, positions, {tokens});
}

void fill(const View& view, const Generator& generator, uint64_t seed, std::string_view name,
          const BatchMetadata& batch) {
  using Kind = Generator::Kind;
  Stream stream(seed, name);
  std::byte* address = static_cast<std::byte*>(view.data());
  size_t step = dtype_size(view.dtype());
  auto each = [&](auto value) {
    for (int64_t i = 0; i < view.numel(); ++i)
      store_element(address + static_cast<size_t>(i) * step, view.dtype(), value(static_cast<uint64_t>(i)));
  };
  auto copy = [&](const View& from) { copy_elements(from, view); };
  switch (generator.kind) {
    case Kind::kNormal:
      return fill_normal(view, generator.a, generator.b, stream, generator.c, generator.with_neighbours);
    case Kind::kUniform:
      return each([&](uint64_t i) { return generator.a + (generator.b - generator.a) * stream.uniform(i); });
    case Kind::kUniformOr:
      return each([&](uint64_t i) {
        double u = 4 * stream.uniform(i);
        return u < 1 ? generator.c : generator.a + (generator.b - generator.a) * (u - 1) / 3;
      });
    case Kind::kIntegers:
      if (generator.c != 0)
        return each([&](uint64_t i) {
          return generator.a - 1 + std::floor(std::pow(generator.b - generator.a + 1, stream.uniform(i)));
        });
      return each([&](uint64_t i) {
        return generator.a + static_cast<double>(stream.below(i, static_cast<uint64_t>(generator.b - generator.a)));
      });
    case Kind::kConstant:
      return each([&](uint64_t) { return generator.a; });
    case Kind::kPositions:
      return copy(batch.positions());
    case Kind::kLogitsIndices:
      return copy(batch.logits_indices());
    case Kind::kCuSeqlensQ:
      return copy(batch.all().cu_seqlens_q);
    case Kind::kCuSeqlensK:
      return copy(batch.all().cu_seqlens_k);
    case Kind::kSeqLens:
      return copy(batch.all().seq_lens);
    case Kind::kBlockTable:
      return copy(batch.all().block_table);
    case Kind::kSlotMapping:
      return copy(batch.attention().slot_mapping);
    case Kind::kStateSlots:
      return copy(batch.all().state_slots);
    case Kind::kTopkIds:
    case Kind::kSortedIds:
    case Kind::kExpertOffsets:
      return fill_routing(view, generator, seed, batch);
  }
}

View view_with_gaps(void* data, const TensorSpec& spec, int64_t gap) {
  const Shape& shape = spec.shape;
  if (gap == 0) return {data, spec};
  FK_CHECK(shape.rank() == 2 || shape.rank() == 3);
  int64_t row = shape.rank() == 2 ? shape[1] : shape[1] * shape[2];
  View rows = View(data, {shape[0], row + gap}, spec.dtype).narrow(1, 0, row);
  return shape.rank() == 3 ? rows.split_last(shape[1], shape[2]) : rows;
}

size_t bytes_with_gaps(const TensorSpec& spec, int64_t gap) {
  if (gap == 0 || spec.shape.numel() == 0) return spec.size_bytes();
  return spec.size_bytes() + static_cast<size_t>((spec.shape[0] - 1) * gap) * dtype_size(spec.dtype);
}

std::string state_words(const StateSpec& state) { return fmt::format("the state '{}'", state.name); }

std::vector<View> state_views(std::span<const Tensor> states) { return {states.begin(), states.end()}; }

CallData make_call_data(const Node& root, const Workload& workload, uint64_t seed) {
  CallData data = make_call_inputs(root, workload, seed);
  data.params = make_params(root, seed);
  return data;
}

CallData make_call_data(const Node& root, const Inputs& inputs, const Workload& workload,
                        std::shared_ptr<const BatchMetadata> batch, uint64_t seed) {
  CallData data = make_call_inputs(root, inputs, workload, std::move(batch), seed);
  data.params = make_params(root, seed);
  return data;
}

std::vector<Tensor> make_params(const Node& root, uint64_t seed) {
  std::vector<Tensor> params;
  const BatchMetadata no_batch(Workload{}, seed);
  for (const ParamSpec& p : collect_params(root)) {
    params.emplace_back(p.spec);
    if (p.fill) {
      fill(params.back(), *p.fill, seed, p.name, no_batch);
      continue;
    }
    if (!p.format.empty()) {
      fill_quantised(params.back(), weight_format(p.format), Stream(seed, p.name));
      continue;
    }
    // Weights like trained ones: rows that keep the size of their input, norm weights that are neither one nor zero.
    bool matrix = p.spec.shape.rank() >= 2;
    double deviation = matrix ? 1.0 / std::sqrt(static_cast<double>(fan_in(p.spec.shape))) : 0.25;
    fill_normal(params.back(), matrix ? 0 : 0.75, deviation, Stream(seed, p.name));
  }
  return params;
}

CallData make_call_inputs(const Node& root, const Workload& workload, uint64_t seed) {
  return make_call_inputs(root, root.info().inputs(root.init(), workload), workload,
                          std::make_unique<BatchMetadata>(workload, seed), seed);
}

CallData make_call_shapes(const Node& root, const Inputs& inputs, const Workload& workload,
                          std::shared_ptr<const BatchMetadata> batch) {
  CallData data;
  data.batch = std::move(batch);
  for (const std::optional<InputSpec>& input : inputs) {
    data.given.emplace_back();
    if (input) data.given.back().emplace(input->spec);
  }
  data.state_specs = collect_states(root);
  for (const StateSpec& s : data.state_specs)
    data.states.emplace_back(state_tensor(s, state_room(workload), workload.dtype));
  return data;
}

CallData make_call_inputs(const Node& root, const Inputs& inputs, const Workload& workload,
                          std::shared_ptr<const BatchMetadata> batch, uint64_t seed) {
  CallData data = make_call_shapes(root, inputs, workload, std::move(batch));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) fill(*data.given[i], inputs[i]->generator, seed, root.info().args[i].name, *data.batch);
  for (size_t i = 0; i < data.states.size(); ++i)
    fill(data.states[i], Generator::normal(), seed, "state " + data.state_specs[i].name, *data.batch);
  return data;
}

}  // namespace fk
