#include "models/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/memory_room.h"
#include "models/convert.h"
#include "models/dequantise.h"
#include "models/dummy_weights.h"
#include "models/finite.h"
#include "models/in_quotes.h"
#include "models/side_tensors.h"
#include "models/stored_layout.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

// A tensor as the checkpoint stores it, and the rows of the parameter it fills. Experts [E, N, K] have E * N rows.
struct Part {
  std::string name;
  Shape shape;
  int64_t row = 0;
  std::string format = {};             // as in ParamSpec
  std::optional<Generator> fill = {};  // likewise
  DType dtype = DType::kF32;
  bool bytes = false;  // a half of a matrix in a format, which the checkpoint stores as two tensors
  // How the checkpoint stores it, if it must be dequantised.
  const ScaledFormat* scaled = nullptr;
};

// All leading dimensions as one.
Shape as_rows(const Shape& shape) { return shape.rank() < 3 ? shape : Shape{shape.numel() / shape[-1], shape[-1]}; }
std::string_view format_words(std::string_view format) { return format.empty() ? "plain elements" : format; }

std::vector<Part> parts_of_param(const ParamSpec& param) {
  const Shape& whole = param.spec.shape;
  if (param.part_names.empty()) return {{param.name, whole, 0, param.format, param.fill, param.spec.dtype}};
  if (param.stored == Stored::kWhole) return {{param.part_names[0], whole, 0, param.format}};
  if (param.stored == Stored::kTransposed) return {{param.part_names[0], {whole[0], whole[2], whole[1]}}};
  if (param.stored == Stored::kBlocksAndScales) {
    int64_t blocks = whole[2] / weight_format(param.format).block_bytes;
    return {{.name = param.part_names[0], .shape = {whole[0], whole[1], blocks, 16}, .bytes = true},
            {.name = param.part_names[1], .shape = {whole[0], whole[1], blocks}, .bytes = true}};
  }
  std::vector<Part> result;
  if (param.stored == Stored::kEqualParts) {
    const auto parts = static_cast<int64_t>(param.part_names.size());
    FK_CHECK(whole[0] % parts == 0, "a parameter of equal parts must divide by them");
    Shape shape = whole;
    shape[0] /= parts;
    for (int64_t i = 0; i < parts; ++i)
      result.push_back({param.part_names[static_cast<size_t>(i)], shape, i * as_rows(shape)[0]});
    return result;
  }
  FK_CHECK(param.part_names.size() == param.part_rows.size());
  if (param.fill)  // a tensor of one matrix, whatever its shape
    return {{param.part_names[0], param.spec.shape, 0, param.format, param.fill, param.spec.dtype}};
  Shape shape = as_rows(param.spec.shape);
  const int64_t rows = shape[0];
  int64_t row = 0;
  for (size_t i = 0; i < param.part_names.size(); ++i) {
    shape[0] = param.part_rows[i];
    result.push_back({param.part_names[i], shape, row, param.format, param.fill, param.spec.dtype});
    row += param.part_rows[i];
  }
  FK_CHECK(row == rows, "the parts of a parameter must add up to its rows");
  return result;
}

// A checkpoint, and how it stores quantised matrices.
struct Source {
  const Checkpoint& checkpoint;
  const FormatOf& formats;
};

std::vector<Part> parts_in(const Source& source, const ParamSpec& param) {
  std::vector<Part> parts = parts_of_param(param);
  const bool elements =
      !param.fill && param.format.empty() && (param.stored == Stored::kRows || param.stored == Stored::kWhole);
  for (Part& part : parts)
    if (elements && (part.shape.rank() == 2 || (part.shape.rank() == 3 && !part.name.ends_with(".weight"))))
      part.scaled = stored_format(source.checkpoint, source.formats, part.name);
  return parts;
}

// The tensors of the checkpoint that the part is made of.
std::vector<Part> tensors_of(const Part& part) {
  if (part.scaled == nullptr) return {part};
  std::vector<Part> tensors;
  for (const ParamSpec& p : stored_tensors(*part.scaled, part.name, part.shape))
    tensors.push_back({.name = p.name, .shape = p.spec.shape, .fill = p.fill, .dtype = p.spec.dtype});
  return tensors;
}

// The memory of the parameter that the part fills.
View place_of(const Part& part, const View& parameter) {
  if (part.fill || part.shape == parameter.shape()) return parameter;
  return parameter.reshape(as_rows(parameter.shape())).narrow(0, part.row, as_rows(part.shape)[0]);
}

// Scales of a whole matrix are stored as [], [1] and [1, 1].
Shape without_ones(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int64_t extent : shape.extents())
    if (extent != 1) extents.push_back(extent);
  return Shape(std::span<const int64_t>(extents));
}

// Old checkpoints store rotary frequencies and lists of positions, and some store a head that is tied to the embedding.
bool may_stay_unused(std::string_view name, const std::vector<std::string_view>& other_parts) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".position_ids") || name == "lm_head.weight" ||
         std::any_of(other_parts.begin(), other_parts.end(), [&](std::string_view p) { return name.starts_with(p); });
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) shown.push_back(in_quotes(names[i]));
  if (names.size() > kShown) shown.push_back(fmt::format("and {} more", names.size() - kShown));
  return fmt::format("{}", fmt::join(shown, ", "));
}

void check_names(const std::vector<ParamSpec>& specs, const std::vector<std::vector<Part>>& parts_of,
                 const Source& source, const std::vector<std::string_view>& other_parts) {
  const Checkpoint& checkpoint = source.checkpoint;
  std::vector<std::string> missing, unused;
  bool quantised =
      source.formats || std::any_of(specs.begin(), specs.end(), [](const ParamSpec& p) { return p.fill.has_value(); });
  std::set<std::string> wanted;
  for (const std::vector<Part>& parts : parts_of)
    for (const Part& part : parts)
      for (const Part& tensor : tensors_of(part)) {
        wanted.insert(tensor.name);
        if (!checkpoint.find(tensor.name)) missing.push_back(tensor.name);
      }
  for (const std::string& name : checkpoint.names()) {
    if (wanted.contains(name) || may_stay_unused(name, other_parts)) continue;
    if (quantised && is_side_tensor(name))
      check_side_tensor(checkpoint, name);
    else
      unused.push_back(name);
  }
  std::vector<std::string> reasons;
  if (!missing.empty()) reasons.push_back("it lacks " + some_of(missing));
  if (!unused.empty()) reasons.push_back("the model has no place for " + some_of(unused));
  if (reasons.empty()) return;
  throw Error("The checkpoint in {} does not fit {}: {}.", in_quotes(checkpoint.place()), checkpoint.config_words(),
              fmt::join(reasons, "; "));
}

View checked_tensor(const Checkpoint& checkpoint, const Part& part) {
  View tensor = checkpoint.find(part.name).value();
  if (tensor.shape() != part.shape && !(part.fill && without_ones(tensor.shape()) == without_ones(part.shape))) {
    throw Error("Tensor {} of the checkpoint in {} has shape {}, but {} makes it {}.", in_quotes(part.name),
                in_quotes(checkpoint.place()), tensor.shape().str(), checkpoint.config_words(), part.shape.str());
  }
  if (checkpoint.format(part.name) != part.format)
    throw Error("Tensor {} of the checkpoint in {} is stored as {} where the model needs {}.", in_quotes(part.name),
                in_quotes(checkpoint.place()), format_words(checkpoint.format(part.name)), format_words(part.format));
  if (part.fill && !dtype_is_weight(part.dtype)) {
    if (tensor.dtype() == part.dtype) return tensor;
    throw Error("Tensor {} of the checkpoint in {} is stored as {}, but {} {}.", in_quotes(part.name),
                in_quotes(checkpoint.place()), dtype_name(tensor.dtype()),
                part.dtype == DType::kI64 ? "it must be" : "its quantization_config makes it", dtype_name(part.dtype));
  }
  if (part.bytes && tensor.dtype() != DType::kU8)
    throw Error("Tensor {} of the checkpoint in {} is stored as {}; experts in MXFP4 must be u8.", in_quotes(part.name),
                in_quotes(checkpoint.place()), dtype_name(tensor.dtype()));
  if (!part.bytes && part.format.empty() && !dtype_is_weight(tensor.dtype())) {
    throw Error("Tensor {} of the checkpoint in {} is stored as {}; weights must be f32, f16 or bf16.",
                in_quotes(part.name), in_quotes(checkpoint.place()), dtype_name(tensor.dtype()));
  }
  return tensor;
}

// Products with FP8 need not keep a NaN, so that the check of logits might not find it.
void refuse_nan_codes(const Checkpoint& checkpoint, const std::string& name, const View& codes, ThreadPool& pool) {
  if (codes.dtype() != DType::kF8E4M3) return;
  std::atomic<bool> finite = true;
  pool.parallel_for(codes.numel(), int64_t{2} << 20, [&](int64_t begin, int64_t end) {
    if (!all_finite(View(static_cast<std::byte*>(codes.data()) + begin, Shape{end - begin}, codes.dtype())))
      finite = false;
  });
  if (!finite)
    throw Error("Tensor {} of the checkpoint in {} holds a NaN; get the checkpoint again.", in_quotes(name),
                in_quotes(checkpoint.place()));
}

void copy_converted(const View& from, const View& to, ThreadPool& pool) {
  if (from.dtype() == to.dtype() && !dtype_is_weight(from.dtype())) {  // of a quantised matrix
    std::memcpy(to.data(), from.data(), from.size_bytes());
    return;
  }
  const auto* source = static_cast<const std::byte*>(from.data());
  auto* target = static_cast<std::byte*>(to.data());
  auto source_size = static_cast<int64_t>(dtype_size(from.dtype()));
  auto target_size = static_cast<int64_t>(dtype_size(to.dtype()));
  int64_t grain = (int64_t{2} << 20) / target_size;  // whole huge pages, as in fill_dummy
  pool.parallel_for(from.numel(), grain, [&](int64_t begin, int64_t end) {
    convert_elements(source + begin * source_size, from.dtype(), target + begin * target_size, to.dtype(), end - begin);
  });
}

// A piece of the parameter, converted into pinned memory and copied to the device from there. Two such buffers
// alternate: while one is copied the other is filled.
class Courier {
 public:
  Courier(Device device, ThreadPool& pool) : runtime_(device_runtime(device)), pool_(pool) {
    for (Piece& piece : pieces_) {
      piece.memory = static_cast<std::byte*>(runtime_.allocate_host(kPieceBytes));
      piece.gone = runtime_.make_event();
    }
  }
  ~Courier() {
    for (Piece& piece : pieces_) runtime_.release_host(piece.memory);
  }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  void send(const View& from, const View& to) {
    auto from_size = static_cast<int64_t>(dtype_size(from.dtype())),
         to_size = static_cast<int64_t>(dtype_size(to.dtype()));
    int64_t per_piece = static_cast<int64_t>(kPieceBytes) / to_size;
    for (int64_t at = 0; at < from.numel(); at += per_piece) {
      Piece& piece = pieces_[next_ ^= 1];
      if (piece.sent) piece.gone->wait();
      int64_t count = std::min(per_piece, from.numel() - at);
      copy_converted(View(static_cast<std::byte*>(from.data()) + at * from_size, Shape{count}, from.dtype()),
                     View(piece.memory, Shape{count}, to.dtype()), pool_);
      runtime_.upload(static_cast<std::byte*>(to.data()) + at * to_size, piece.memory,
                      static_cast<size_t>(count * to_size));
      piece.gone->record();
      piece.sent = true;
    }
  }
  void finish() { runtime_.synchronize(); }

 private:
  static constexpr size_t kPieceBytes = size_t{64} << 20;
  struct Piece {
    std::byte* memory = nullptr;
    std::unique_ptr<DeviceEvent> gone;
    bool sent = false;
  };

  DeviceRuntime& runtime_;
  ThreadPool& pool_;
  Piece pieces_[2];
  int next_ = 0;
};

constexpr std::string_view kSmaller = "use a smaller model";

bool stored_otherwise(const ParamSpec& param) {
  return param.stored == Stored::kTransposed || param.stored == Stored::kBlocksAndScales;
}

// Runs fill(view) on memory that is filled on the CPU, wherever it is.
template <class Fill>
void fill_on_cpu(const View& destination, Fill&& fill) {
  if (destination.device() == kCpu) return fill(destination);
  Buffer memory(destination.size_bytes(), kCpu);
  fill(View(memory.data(), destination.spec()));
  DeviceRuntime& runtime = device_runtime(destination.device());
  runtime.upload(destination.data(), memory.data(), destination.size_bytes());
  runtime.synchronize();
}

// Every parameter starts on a cache line of any device.
size_t padded_bytes(const TensorSpec& spec) { return (spec.size_bytes() + 255) / 256 * 256; }

const RankSlice* slice_of(const ParamSpec& param, const RankSlices& slices) {
  auto found = slices.find(param.name);
  return found == slices.end() ? nullptr : &found->second;
}

// Of a parameter that the checkpoint stores in another layout, on the CPU.
void load_stored_otherwise(const ParamSpec& param, const std::vector<Part>& parts, const Checkpoint& checkpoint,
                           const View& to, ThreadPool& pool) {
  View first = checked_tensor(checkpoint, parts[0]);
  if (param.stored == Stored::kTransposed)
    copy_transposed(first, to, pool);
  else
    copy_mxfp4(first, checked_tensor(checkpoint, parts[1]), to, pool);
}

RowRange all_rows(const Part& part) { return {0, as_rows(part.shape)[0]}; }

// The rows of a part between the first and the last one that the slice takes.
RowRange rows_in_slice(const Part& part, const RankSlice& slice) {
  int64_t first = all_rows(part).count, end = 0;
  for (const RankSlice::Rows& piece : slice.rows) {
    const int64_t from = std::max<int64_t>(piece.from - part.row, 0),
                  to = std::min(piece.from + piece.count - part.row, all_rows(part).count);
    if (from >= to) continue;
    first = std::min(first, from);
    end = std::max(end, to);
  }
  return {first, std::max<int64_t>(end - first, 0)};
}

Tensor dequantised_rows(const Checkpoint& checkpoint, const ParamSpec& param, const Part& part, const RowRange& rows,
                        ThreadPool& pool) {
  std::vector<View> tensors;
  for (const Part& tensor : tensors_of(part)) tensors.push_back(checked_tensor(checkpoint, tensor));
  return dequantised(*part.scaled, tensors, part.shape, rows, param.spec.dtype, pool);
}

// A part as elements; `memory` holds those that had to be computed.
View elements_of(const Checkpoint& checkpoint, const ParamSpec& param, const Part& part, std::optional<Tensor>& memory,
                 ThreadPool& pool) {
  if (part.scaled == nullptr) {
    const View tensor = checked_tensor(checkpoint, part);
    refuse_nan_codes(checkpoint, part.name, tensor, pool);
    return tensor;
  }
  memory = dequantised_rows(checkpoint, param, part, all_rows(part), pool);
  return memory->view();
}

void release(const Checkpoint& checkpoint, const Part& part) {
  for (const Part& tensor : tensors_of(part)) checkpoint.release(tensor.name);
}

void load_slice(const ParamSpec& param, const std::vector<Part>& parts, const Checkpoint& checkpoint,
                const RankSlice& slice, const View& to, ThreadPool& pool) {
  if (!stored_otherwise(param)) {
    for (const Part& part : parts) {
      if (part.scaled == nullptr) {
        copy_slice(checked_tensor(checkpoint, part), part.row, slice, to, pool);
      } else if (RowRange rows = rows_in_slice(part, slice); rows.count > 0) {
        const Tensor elements = dequantised_rows(checkpoint, param, part, rows, pool);
        copy_slice(elements, part.row + rows.first, slice, to, pool);
      }
    }
    return;
  }
  Tensor whole(param.spec);
  load_stored_otherwise(param, parts, checkpoint, whole, pool);
  copy_slice(whole, 0, slice, to, pool);
}

struct DummySeed {
  uint64_t seed = 0;
  float norm_offset = 0;
};

void dummy_stored_otherwise(const ParamSpec& param, const DummySeed& dummy, const View& to, ThreadPool& pool) {
  Part part = parts_of_param(param)[0];
  if (param.stored == Stored::kBlocksAndScales)
    return fill_dummy_format(to.reshape(as_rows(to.shape())), weight_format(param.format), dummy.seed, part.name, pool);
  Tensor stored(part.shape, param.spec.dtype);
  fill_dummy(stored, dummy.seed, part.name, dummy_range(part.name, part.shape, dummy.norm_offset), pool);
  copy_transposed(stored, to, pool);
}

void dummy_part(const Part& part, const DummySeed& dummy, const View& rows, ThreadPool& pool) {
  if (part.fill)
    return fill_on_cpu(rows, [&](const View& to) { fill_dummy_tensor(to, *part.fill, dummy.seed, part.name, pool); });
  if (!part.format.empty())
    return fill_on_cpu(
        rows, [&](const View& to) { fill_dummy_format(to, weight_format(part.format), dummy.seed, part.name, pool); });
  fill_dummy(rows, dummy.seed, part.name, dummy_range(part.name, part.shape, dummy.norm_offset), pool);
}

// The values that the whole parameter would have there. It is generated part by part, since a part's values are
// numbered row by row.
void dummy_slice(const ParamSpec& param, const DummySeed& dummy, const RankSlice& slice, const View& to,
                 ThreadPool& pool) {
  if (stored_otherwise(param)) {
    Tensor whole(param.spec);
    dummy_stored_otherwise(param, dummy, whole, pool);
    return copy_slice(whole, 0, slice, to, pool);
  }
  for (const Part& part : parts_of_param(param)) {
    Tensor whole(part.shape, param.spec.dtype);
    dummy_part(part, dummy, whole, pool);
    copy_slice(whole, part.row, slice, to, pool);
  }
}

// Whether the checkpoint's mapped memory can be used as the parameter.
bool usable_in_place(const ParamSpec& param, const View& tensor) {
  auto address = reinterpret_cast<uintptr_t>(tensor.data());
  return param.part_names.size() <= 1 && param.stored != Stored::kTransposed && tensor.dtype() == param.spec.dtype &&
         address % dtype_size(tensor.dtype()) == 0;
}

}  // namespace

Weights Weights::load(const std::vector<ParamSpec>& specs, Checkpoint checkpoint, ThreadPool& pool, Device device,
                      const std::vector<std::string_view>& other_parts, const RankSlices& slices,
                      const FormatOf& formats) {
  std::vector<std::vector<Part>> parts_of;  // of each parameter
  for (const ParamSpec& param : specs) parts_of.push_back(parts_in({checkpoint, formats}, param));
  check_names(specs, parts_of, {checkpoint, formats}, other_parts);
  auto stays = [&](const ParamSpec& param, const View& tensor) {
    return device == kCpu && usable_in_place(param, tensor);
  };
  // All shapes are checked before the first copy, so that a mismatch is reported at once, not after minutes.
  size_t copied_bytes = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParamSpec& param = specs[i];
    bool in_place = false;
    for (const Part& part : parts_of[i])
      for (const Part& tensor : tensors_of(part))
        in_place = stays(param, checked_tensor(checkpoint, tensor)) && part.scaled == nullptr;
    const RankSlice* slice = slice_of(param, slices);
    if (slice != nullptr)
      copied_bytes += slice->held ? padded_bytes(slice->spec) : 0;
    else if (!in_place)
      copied_bytes += padded_bytes(param.spec);
  }
  require_memory(static_cast<double>(copied_bytes), device, "The weights", kSmaller);

  Weights result;
  result.memory_ = Buffer(copied_bytes, device);
  std::optional<Courier> courier;
  if (device != kCpu) courier.emplace(device, pool);
  bool points_into_file = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParamSpec& param = specs[i];
    const std::vector<Part>& parts = parts_of[i];
    if (const RankSlice* slice = slice_of(param, slices); slice != nullptr) {
      if (slice->held)
        fill_on_cpu(result.allocate(param, slice->spec),
                    [&](const View& to) { load_slice(param, parts, checkpoint, *slice, to, pool); });
      for (const Part& part : parts) release(checkpoint, part);
      continue;
    }
    if (parts.front().scaled == nullptr) {
      if (View tensor = checked_tensor(checkpoint, parts.front()); stays(param, tensor)) {
        refuse_nan_codes(checkpoint, parts.front().name, tensor, pool);
        result.add(param, tensor.reshape(param.spec.shape));
        points_into_file = true;
        continue;
      }
    }
    View destination = result.allocate(param, param.spec);
    if (stored_otherwise(param)) {
      fill_on_cpu(destination, [&](const View& to) { load_stored_otherwise(param, parts, checkpoint, to, pool); });
      for (const Part& part : parts) checkpoint.release(part.name);
      continue;
    }
    for (const Part& part : parts) {
      std::optional<Tensor> memory;
      View rows = place_of(part, destination), elements = elements_of(checkpoint, param, part, memory, pool);
      if (courier)
        courier->send(elements, rows);
      else
        copy_converted(elements, rows, pool);
      release(checkpoint, part);
    }
  }
  if (courier) courier->finish();
  if (points_into_file) result.checkpoint_ = std::move(checkpoint);
  return result;
}

Weights Weights::dummy(const std::vector<ParamSpec>& specs, uint64_t seed, float norm_offset, ThreadPool& pool,
                       Device device, const RankSlices& slices) {
  size_t total_bytes = 0;
  for (const ParamSpec& param : specs) {
    const RankSlice* slice = slice_of(param, slices);
    if (slice == nullptr || slice->held) total_bytes += padded_bytes(slice != nullptr ? slice->spec : param.spec);
  }
  require_memory(static_cast<double>(total_bytes), device, "The weights", kSmaller);
  Weights result;
  result.memory_ = Buffer(total_bytes, device);
  const DummySeed dummy{seed, norm_offset};
  for (const ParamSpec& param : specs) {
    if (const RankSlice* slice = slice_of(param, slices); slice != nullptr) {
      if (slice->held)
        fill_on_cpu(result.allocate(param, slice->spec),
                    [&](const View& to) { dummy_slice(param, dummy, *slice, to, pool); });
      continue;
    }
    View destination = result.allocate(param, param.spec);
    if (stored_otherwise(param)) {
      fill_on_cpu(destination, [&](const View& to) { dummy_stored_otherwise(param, dummy, to, pool); });
      continue;
    }
    for (const Part& part : parts_of_param(param)) dummy_part(part, dummy, place_of(part, destination), pool);
  }
  return result;
}

View Weights::allocate(const ParamSpec& param, const TensorSpec& spec) {
  FK_CHECK(dtype_is_weight(param.spec.dtype) || !param.format.empty() || param.fill,
           "a parameter is f32, f16, bf16 or in a format");
  View view(memory_.data() + used_bytes_, spec, memory_.device());
  used_bytes_ += padded_bytes(spec);
  FK_CHECK(used_bytes_ <= memory_.size());
  add(param, view);
  return view;
}

void Weights::add(const ParamSpec& param, const View& view) {
  FK_CHECK(views_.emplace(param.name, view).second, "two parameters share a name");
  size_bytes_ += view.size_bytes();
}

std::optional<std::string> Weights::first_not_finite() const {
  // By the names in the file, if it is still open.
  if (checkpoint_)
    for (const std::string& name : checkpoint_->names())
      if (View tensor = checkpoint_->find(name).value(); may_be_not_finite(tensor.dtype()) && !all_finite(tensor))
        return name;
  for (const auto& [name, view] : views_)
    if (may_be_not_finite(view.dtype()) && !all_finite(view)) return name;
  return std::nullopt;
}

View Weights::get(std::string_view name) const {
  auto found = views_.find(name);
  FK_CHECK(found != views_.end(), "a parameter was asked for that no spec named");
  return found->second;
}

}  // namespace fk
