#include "sandbox/call_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/device_runtime.h"

namespace fk {
namespace {

// The tensors of attention metadata, in the order they are stored.
std::vector<View> metadata_views(const BatchMetadata& batch) {
  const AttentionMetadata& m = batch.attention();
  std::vector<View> views;
  for (const SequenceGroup* g : {&m.decode, &m.prefill})
    for (const View& v : {g->cu_seqlens_q, g->cu_seqlens_k, g->seq_lens, g->block_table, g->state_slots})
      views.push_back(v);
  views.push_back(m.slot_mapping);
  return views;
}
constexpr size_t kGroupViews = 5;
size_t aligned(size_t bytes) { return (bytes + 511) / 512 * 512; }

// Calls visit(address, bytes) for every contiguous part of a view.
template <class Visit>
void each_stretch(const View& v, Visit&& visit) {
  if (v.contiguous()) return visit(static_cast<std::byte*>(v.data()), v.size_bytes());
  size_t row = v.size_bytes() / static_cast<size_t>(v.size(0));
  for (int64_t i = 0; i < v.size(0); ++i) visit(static_cast<std::byte*>(v.select(0, i).data()), row);
}

// One of the two may have gaps between its rows.
void copy_bytes(const View& from, const View& to) {
  if (from.contiguous()) {
    const auto* at = static_cast<const std::byte*>(from.data());
    each_stretch(to, [&](std::byte* stretch, size_t bytes) {
      std::memcpy(stretch, at, bytes);
      at += bytes;
    });
  } else {
    auto* at = static_cast<std::byte*>(to.data());
    each_stretch(from, [&](const std::byte* stretch, size_t bytes) {
      std::memcpy(at, stretch, bytes);
      at += bytes;
    });
  }
}

}  // namespace

std::unique_ptr<SharedTensors> share_params(const Node& root, std::span<const Tensor> params, Device device) {
  std::vector<SharedTensors::Named> named;
  std::vector<ParamSpec> wanted = collect_params(root);
  for (size_t i = 0; i < params.size(); ++i) named.push_back({wanted[i].name, params[i].view().spec()});
  auto memory = std::make_unique<SharedTensors>(named, Access::kReadOnly, device);
  for (size_t i = 0; i < params.size(); ++i) copy_between(params[i], memory->view(i));
  memory->remember();
  return memory;
}

std::optional<Failure> check_params(const SharedTensors& params) {
  if (std::optional<std::string> name = params.changed())
    return Failure{Verdict::kInputMutated, fmt::format("Its weight '{}' was changed.", *name)};
  return std::nullopt;
}

Tensor copy_of(const View& view) {
  Tensor copy(view.spec());
  copy_bytes(view, copy);
  return copy;
}

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed) {
  // Four multiply-xor lanes over 32-byte blocks, so that the loop is limited by memory and not by the multiplier.
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
  uint64_t lanes[4] = {seed ^ 1, seed ^ 2, seed ^ 3, seed ^ 4};
  const auto* at = static_cast<const std::byte*>(data);
  for (; bytes >= 32; bytes -= 32, at += 32)
    for (int i = 0; i < 4; ++i) {
      uint64_t word;
      std::memcpy(&word, at + 8 * i, 8);
      lanes[i] = (lanes[i] ^ word) * kPrime;
      lanes[i] ^= lanes[i] >> 29;
    }
  uint64_t hash = bytes;
  for (; bytes > 0; --bytes, ++at) hash = (hash ^ static_cast<uint64_t>(*at)) * kPrime;
  for (uint64_t lane : lanes) hash = ((hash ^ lane) * kPrime) ^ (hash >> 31);
  return hash;
}

CallMemory::CallMemory(const Node& root, const CallData& data, int slots, int writers, Device device)
    : slots_(slots), device_(device) {
  const std::vector<ArgSpec>& specs = root.info().args;
  std::vector<OptView> given;
  for (const auto& t : data.given) given.push_back(t ? OptView(t->view()) : std::nullopt);
  OutputSpecs outputs = root.outputs(given);

  std::vector<SharedTensors::Named> in, out;
  for (size_t i = 0; i < specs.size(); ++i) {
    bool is_output = specs[i].role == Role::kOutput;
    std::optional<TensorSpec> spec;
    if (is_output)
      spec = outputs.specs[i - given.size()];
    else if (given[i])
      spec = given[i]->spec();
    Arg arg{spec.has_value(), specs[i].role != Role::kInput, 0, is_output};
    if (spec) {
      auto& list = arg.written ? out : in;
      arg.tensor = list.size();
      // On a GPU rows have no gaps: staged data is copied as it is.
      int64_t row_gap = is_output || device != kCpu ? 0 : data.row_gap(i);
      list.push_back({std::string(specs[i].name), *spec, row_gap});
    }
    args_.push_back(arg);
  }
  first_state_ = out.size();
  state_count_ = data.states.size();
  for (size_t i = 0; i < state_count_; ++i) out.push_back({data.state_specs[i].name, data.states[i].view().spec()});
  metadata_ = in.size();
  has_metadata_ = state_count_ > 0;
  for (const View& v : metadata_of(data)) in.push_back({"the attention metadata", v.spec()});
  const AttentionMetadata& m = data.batch->attention();
  page_size_ = m.page_size;
  decode_sequences_ = m.decode.num_sequences, decode_tokens_ = m.decode.num_tokens;
  prefill_sequences_ = m.prefill.num_sequences, prefill_tokens_ = m.prefill.num_tokens;

  inputs_per_slot_ = in.size();
  written_per_slot_ = out.size();
  auto repeat = [&](const std::vector<SharedTensors::Named>& one) {
    std::vector<SharedTensors::Named> all;
    for (int s = 0; s < slots; ++s) all.insert(all.end(), one.begin(), one.end());
    return all;
  };
  inputs_ = std::make_unique<SharedTensors>(repeat(in), Access::kReadOnly, device);
  // The margins of inputs and the gaps between rows are NaN.
  for (size_t i = 0; i < inputs_->size(); ++i) inputs_->paint_margins(i, 0xFF);
  for (int w = 0; w < writers; ++w)
    written_.push_back(std::make_unique<SharedTensors>(repeat(out), Access::kWritable, device));
  if (device == kCpu) return;
  auto measure = [&](const Place& p) { staging_per_slot_ = p.offset + p.to.size_bytes(); };
  for_inputs(0, data, measure);
  staged_inputs_ = staging_per_slot_ = aligned(staging_per_slot_);
  for_states(0, 0, data, measure);
  staging_per_slot_ = aligned(staging_per_slot_);
  staging_ = Buffer(std::max<size_t>(1, staging_per_slot_ * static_cast<size_t>(slots)), device);
}

std::vector<View> CallMemory::metadata_of(const CallData& data) const {
  return has_metadata_ ? metadata_views(*data.batch) : std::vector<View>();
}

template <class Visit>
void CallMemory::for_inputs(int slot, const CallData& data, const Visit& visit) const {
  size_t offset = 0;
  auto one = [&](const View& from, const View& to, size_t tensor) {
    visit(Place{from, to, offset, tensor});
    offset += aligned(to.size_bytes());
  };
  for (size_t i = 0; i < data.given.size(); ++i)
    if (args_[i].present && !args_[i].written) one(*data.given[i], inputs_->view(input(args_[i].tensor, slot)), i);
  size_t at = metadata_;
  for (const View& v : metadata_of(data)) one(v, inputs_->view(input(at++, slot)), Place::kMetadata);
}

template <class Visit>
void CallMemory::for_states(int slot, int writer, const CallData& data, const Visit& visit) const {
  const SharedTensors& memory = written(writer);
  size_t offset = staged_inputs_;
  auto one = [&](const View& from, const View& to, size_t tensor) {
    visit(Place{from, to, offset, tensor});
    offset += aligned(to.size_bytes());
  };
  for (size_t i = 0; i < data.given.size(); ++i)
    if (args_[i].present && args_[i].written) one(*data.given[i], memory.view(output(args_[i].tensor, slot)), i);
  for (size_t i = 0; i < state_count_; ++i)
    one(data.states[i], memory.view(output(first_state_ + i, slot)), data.given.size() + i);
}

void CallMemory::stage(int slot, const CallData& data) const {
  if (device_ == kCpu) return;
  auto upload = [&](const Place& p) {
    device_runtime(device_).upload(staged(slot, p.offset), p.from.data(), p.from.size_bytes());
  };
  for_inputs(slot, data, upload);
  for_states(slot, 0, data, upload);
}

const std::byte* CallMemory::on_device(const View& set) {
  auto [known, fresh] = sets_.try_emplace(set.data());
  if (fresh) {
    known->second = Buffer(std::max<size_t>(1, set.size_bytes()), device_);
    device_runtime(device_).upload(known->second.data(), set.data(), set.size_bytes());
  }
  return known->second.data();
}

void CallMemory::stage_pieces(const DataOf& data_of, const MadeFromOf& made_from) {
  DeviceJudging& judging = device_runtime(device_).judging();
  std::vector<DeviceWrite> as_they_are;
  for (int slot = 0; slot < slots_; ++slot) {
    auto put = [&](const Place& p) {
      if (p.to.size_bytes() == 0) return;
      std::optional<MadeFrom> from = p.tensor == Place::kMetadata ? std::nullopt : made_from(slot, p.tensor);
      if (from)
        judging.put_together(staged(slot, p.offset), on_device(from->set), from->pieces);
      else
        as_they_are.push_back({staged(slot, p.offset), on_device(p.from), p.from.size_bytes()});
    };
    for_inputs(slot, data_of(slot), put);
    for_states(slot, 0, data_of(slot), put);
  }
  judging.write(as_they_are, 0);
}

void CallMemory::settle() const {
  if (device_ != kCpu) device_runtime(device_).synchronize();
}

CallPlan CallMemory::plan(int slot, int inputs_segment, int written_segment) const {
  CallPlan plan;
  for (const Arg& a : args_) {
    if (!a.present)
      plan.args.emplace_back();
    else if (a.written)
      plan.args.emplace_back(TensorRef{written_segment, output(a.tensor, slot)});
    else
      plan.args.emplace_back(TensorRef{inputs_segment, input(a.tensor, slot)});
  }
  for (size_t i = 0; i < state_count_; ++i) plan.states.push_back({written_segment, output(first_state_ + i, slot)});
  if (!has_metadata_) return plan;
  CallPlan::Metadata& m = plan.metadata.emplace();
  auto group = [&](CallPlan::Group& g, size_t first) {
    for (size_t i = 0; i < kGroupViews; ++i) g.views.push_back({inputs_segment, input(metadata_ + first + i, slot)});
  };
  m.decode.num_sequences = decode_sequences_, m.decode.num_tokens = decode_tokens_;
  m.prefill.num_sequences = prefill_sequences_, m.prefill.num_tokens = prefill_tokens_;
  group(m.decode, 0);
  group(m.prefill, kGroupViews);
  m.page_size = page_size_;
  m.slot_mapping = {inputs_segment, input(metadata_ + 2 * kGroupViews, slot)};
  return plan;
}

void CallMemory::fill(std::span<const int> slots, int writer, const DataOf& data_of, uint8_t pattern,
                      uint64_t key) const {
  if (device_ == kCpu) {
    for (int slot : slots) fill_on_cpu(slot, writer, data_of(slot), pattern);
    return;
  }
  std::vector<DeviceWrite> writes;
  for (int slot : slots) add_writes(slot, writer, data_of(slot), pattern, writes);
  device_runtime(device_).judging().write(writes, key);
  // Taken before any runner runs, so that the margins are certainly unchanged.
  if (slots.empty() || painted_margins_.contains(pattern)) return;
  std::vector<DeviceRange> margins;
  add_margins(slots[0], writer, margins);
  painted_margins_[pattern] = device_runtime(device_).judging().fingerprint(margins)->values();
}

void CallMemory::fill_on_cpu(int slot, int writer, const CallData& data, uint8_t pattern) const {
  auto copy = [](const Place& p) { copy_bytes(p.from, p.to); };
  for_inputs(slot, data, copy);
  const SharedTensors& memory = written(writer);
  for (const Arg& a : args_) {
    if (!a.present || !a.output) continue;
    View to = memory.view(output(a.tensor, slot));
    std::memset(to.data(), pattern, to.size_bytes());
  }
  for_states(slot, writer, data, copy);
  for (size_t i = 0; i < written_per_slot_; ++i) memory.paint_margins(output(i, slot), pattern);
}

// The same on a GPU.
void CallMemory::add_writes(int slot, int writer, const CallData& data, uint8_t pattern,
                            std::vector<DeviceWrite>& writes) const {
  auto add = [&](const DeviceWrite& write) {
    if (write.size_bytes > 0) writes.push_back(write);
  };
  for_inputs(slot, data, [&](const Place& p) {
    add({p.to.data(), staged(slot, p.offset), p.to.size_bytes(), 0, true});
  });
  for (const Arg& a : args_) {
    if (!a.present || !a.output) continue;
    View to = written(writer).view(output(a.tensor, slot));
    add({to.data(), nullptr, to.size_bytes(), pattern});
  }
  for_states(slot, writer, data, [&](const Place& p) {
    add({p.to.data(), staged(slot, p.offset), p.to.size_bytes()});
  });
  std::vector<DeviceRange> margins;
  add_margins(slot, writer, margins);
  for (const DeviceRange& margin : margins) add({margin.address, nullptr, margin.size_bytes, pattern});
}

void CallMemory::add_margins(int slot, int writer, std::vector<DeviceRange>& ranges) const {
  for (size_t i = 0; i < written_per_slot_; ++i)
    for (const DeviceRange& margin : written(writer).margins(output(i, slot))) ranges.push_back(margin);
}

std::optional<Failure> CallMemory::check_margins(std::span<const int> slots, int writer, uint8_t pattern) const {
  const SharedTensors& memory = written(writer);
  std::vector<uint64_t> now;
  if (device_ != kCpu) {
    std::vector<DeviceRange> margins;
    for (int slot : slots) add_margins(slot, writer, margins);
    now = device_runtime(device_).judging().fingerprint(margins)->values();
  }
  for (size_t s = 0; s < slots.size(); ++s)
    for (size_t i = 0; i < written_per_slot_; ++i) {
      size_t tensor = output(i, slots[s]);
      bool intact = true;
      if (device_ == kCpu) {
        intact = memory.margins_intact(tensor, pattern);
      } else {
        auto found = now.begin() + static_cast<std::ptrdiff_t>(2 * (s * written_per_slot_ + i));
        auto painted = painted_margins_.at(pattern).begin() + static_cast<std::ptrdiff_t>(2 * i);
        intact = std::equal(found, found + 2, painted);
      }
      if (!intact) return Failure{Verdict::kOutOfBounds, fmt::format("It wrote outside '{}'.", memory.name(tensor))};
    }
  return std::nullopt;
}

std::optional<Failure> CallMemory::check_inputs(int slot, const CallData& data) const {
  auto mutated = [&](size_t tensor) {
    return Failure{Verdict::kInputMutated,
                   fmt::format("Its input '{}' was changed.", inputs_->name(input(tensor, slot)))};
  };
  if (device_ != kCpu) {
    std::vector<DeviceRange> ranges;
    for_inputs(slot, data, [&](const Place& p) {
      ranges.push_back(range_of(p.to));
      ranges.push_back({staged(slot, p.offset), p.to.size_bytes()});
    });
    std::vector<uint64_t> prints = device_runtime(device_).judging().fingerprint(ranges)->values();
    for (size_t i = 0; 2 * i < prints.size(); ++i)
      if (prints[2 * i] != prints[2 * i + 1]) return mutated(i);  // inputs are stored in the order of this loop
    return std::nullopt;
  }
  for (size_t i = 0; i < data.given.size(); ++i) {
    if (!args_[i].present || args_[i].written) continue;
    const auto* before = static_cast<const std::byte*>(data.given[i]->view().data());
    bool same = true;
    each_stretch(inputs_->view(input(args_[i].tensor, slot)), [&](const std::byte* now, size_t bytes) {
      same = same && std::memcmp(now, before, bytes) == 0;
      before += bytes;
    });
    if (!same) return mutated(args_[i].tensor);
  }
  return std::nullopt;
}

std::vector<uint64_t> CallMemory::fingerprints(std::span<const int> slots, int writer) const {
  const SharedTensors& memory = written(writer);
  std::vector<uint64_t> prints;
  std::vector<DeviceRange> ranges;
  for (int slot : slots)
    for (size_t i = 0; i < written_per_slot_; ++i) {
      View v = memory.view(output(i, slot));
      if (device_ != kCpu) {
        ranges.push_back(range_of(v));
        continue;
      }
      uint64_t hash = i;
      each_stretch(v, [&](const std::byte* at, size_t bytes) { hash = hash_bytes(at, bytes, hash); });
      prints.push_back(hash);
    }
  return device_ == kCpu ? prints : device_runtime(device_).judging().fingerprint(ranges)->values();
}

std::vector<View> CallMemory::written_tensors(int slot, int writer) const {
  std::vector<View> views;
  for (size_t i = 0; i < written_per_slot_; ++i) views.push_back(written(writer).view(output(i, slot)));
  return views;
}

View CallMemory::on_cpu(int slot, int writer, size_t tensor) const {
  View v = written(writer).view(output(tensor, slot));
  if (device_ == kCpu) return v;
  std::unique_ptr<Tensor>& mirror = mirrors_[{writer, tensor}];
  if (!mirror) mirror = std::make_unique<Tensor>(v.spec());
  copy_between(v, *mirror);
  return *mirror;
}

std::vector<OptView> CallMemory::written_args(int slot, int writer) const {
  std::vector<OptView> views;
  for (const Arg& a : args_)
    views.push_back(a.present && a.written ? OptView(on_cpu(slot, writer, a.tensor)) : std::nullopt);
  return views;
}

std::vector<View> CallMemory::states(int slot, int writer) const {
  std::vector<View> views;
  for (size_t i = 0; i < state_count_; ++i) views.push_back(on_cpu(slot, writer, first_state_ + i));
  return views;
}

}  // namespace fk
