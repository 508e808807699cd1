// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernel_work.hpp"

#include "device/cuda/backend.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::test {

using detail::Fold;
using detail::FoldResult;
using detail::cuda::Backend;
using detail::cuda::Stream;

namespace {

constexpr Device first_gpu{.kind = DeviceKind::gpu};
constexpr std::int64_t most_of_a_period = 1 << 18;
constexpr std::int64_t most_looked_at = 1 << 20;

TensorView bytes_at(std::byte* data, std::int64_t size, Device device) {
  return {data, DType::u8, Shape{size}, device};
}

/// Fills the array with repetitions of `period`.
void repeat(std::byte* target, std::int64_t size, const Bytes& period) {
  auto written = std::min(size, static_cast<std::int64_t>(period.size()));
  copy(bytes_at(target, written, first_gpu), ConstTensorView{period.data(), DType::u8, Shape{written}});
  while (written < size) {
    const std::int64_t more = std::min(written, size - written);
    copy(bytes_at(target + written, more, first_gpu), bytes_at(target, more, first_gpu));
    written += more;
  }
}

Bytes fetched(std::byte* source, std::int64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  copy(bytes_at(bytes.data(), size, {}), bytes_at(source, size, first_gpu));
  return bytes;
}

DType partial_dtype(const ReduceKind& kind) { return accumulation_dtype(ReduceOp::sum, kind.dtype); }

bool is_partial(const ReduceKind& kind, int input) {
  return kind.step == FoldStep::from_partials && input + 1 < kind.replicas;
}

DType input_dtype(const ReduceKind& kind, int input) {
  return is_partial(kind, input) ? partial_dtype(kind) : kind.dtype;
}

FoldResult result_of(const ReduceKind& kind) {
  return kind.step == FoldStep::to_partial ? FoldResult::partial : FoldResult::finished;
}

DType output_dtype(const ReduceKind& kind) {
  return result_of(kind) == FoldResult::partial ? partial_dtype(kind) : kind.dtype;
}

int outputs_of(const ReduceKind& kind) { return kind.step == FoldStep::complete ? kind.replicas : 1; }

int arrays_of(const ReduceKind& kind) { return kind.replicas + (kind.in_place ? 0 : outputs_of(kind)); }

/// Bytes of an array with the elements of `dtype`.
std::int64_t bytes_of(const ReduceKind& kind, DType dtype) {
  return kind.bytes / static_cast<std::int64_t>(size_of(kind.dtype)) * static_cast<std::int64_t>(size_of(dtype));
}

/// The largest element type of the arrays.
DType widest_dtype(const ReduceKind& kind) {
  return kind.step == FoldStep::complete ? kind.dtype : partial_dtype(kind);
}

Fold sum_of(const ReduceKind& kind, std::span<const detail::FoldInput> inputs, std::span<const std::uint8_t> merges,
            std::span<void* const> outputs) {
  return {.op = ReduceOp::sum,
          .dtype = kind.dtype,
          .inputs = inputs,
          .merges = merges,
          .outputs = outputs,
          .result = result_of(kind),
          .replicas = kind.replicas};
}

template <class T>
bool is_nan_at(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return std::isnan(value);
}

bool is_nan(const std::byte* element, DType dtype) {
  return dtype == DType::f64 ? is_nan_at<double>(element) : dtype == DType::f32 && is_nan_at<float>(element);
}

/// Number of wrong elements of `found`, which begins with element number `first` of an array that repeats `period`.
std::int64_t count_unlike(const Bytes& found, std::int64_t first, const Bytes& period, DType dtype, FoldResult result) {
  const std::size_t element_bytes = size_of(dtype);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); i += element_bytes) {
    const std::byte* const actual = found.data() + i;
    const std::byte* const wanted =
        period.data() + (static_cast<std::size_t>(first) * element_bytes + i) % period.size();
    if (std::memcmp(actual, wanted, element_bytes) == 0) continue;
    if (result == FoldResult::partial && is_nan(actual, dtype) && is_nan(wanted, dtype)) continue;
    ++wrong;
  }
  return wrong;
}

}  // namespace

std::string_view to_string(Alignment alignment) noexcept {
  switch (alignment) {
    case Alignment::aligned: return "aligned";
    case Alignment::unaligned: return "unaligned";
    case Alignment::mixed: return "mixed";
  }
  return {};
}

Tensor zeros_on_gpu(std::int64_t bytes) {
  Tensor zeros(DType::u8, Shape{bytes}, gpu_memory_resource(first_gpu), first_gpu);
  synchronize(first_gpu);
  return zeros;
}

DeviceArrays::DeviceArrays(int arrays, std::int64_t bytes, std::size_t element_bytes, Alignment alignment)
    : arrays_(arrays),
      bytes_(bytes),
      element_bytes_(element_bytes),
      alignment_(alignment),
      memory_(zeros_on_gpu(memory_bytes(arrays, bytes))) {}

int DeviceArrays::sets_of(int arrays, std::int64_t bytes) noexcept {
  constexpr std::int64_t more_than_caches = std::int64_t{256} << 20;
  return static_cast<int>(std::clamp<std::int64_t>(more_than_caches / (arrays * stride_bytes(bytes)), 1, 64));
}

std::int64_t DeviceArrays::memory_bytes(int arrays, std::int64_t bytes) {
  return arrays * sets_of(arrays, bytes) * stride_bytes(bytes);
}

std::byte* DeviceArrays::at(int set, int array) const {
  const std::size_t steps = alignment_ == Alignment::aligned     ? 0
                            : alignment_ == Alignment::unaligned ? 1
                                                                 : static_cast<std::size_t>(array) + 1;
  const std::int64_t begin = (std::int64_t{set} * arrays_ + array) * stride_bytes(bytes_);
  // views may be written through, whatever owns the memory
  return static_cast<std::byte*>(const_cast<void*>(memory_.data())) + begin + steps * element_bytes_ % 256;
}

ReduceWork::ReduceWork(const ReduceKind& kind)
    : kind_(kind),
      arrays_(arrays_of(kind), bytes_of(kind, widest_dtype(kind)), size_of(widest_dtype(kind)), kind.alignment),
      merges_(detail::fold_merges_of_leaves({0, kind.replicas})) {
  const auto element_bytes = static_cast<std::int64_t>(size_of(kind.dtype));
  for (int r = 0; r < kind.replicas; ++r) {
    const std::int64_t count = std::min(kind.bytes, most_of_a_period) / element_bytes;
    periods_.push_back(awkward_values(input_dtype(kind, r), count, static_cast<std::uint64_t>(r) + 1));
  }
  for (int set = 0; set < arrays_.sets(); ++set) {
    inputs_.emplace_back();
    outputs_.emplace_back();
    for (int r = 0; r < kind.replicas; ++r) {
      repeat(arrays_.at(set, r), bytes_of(kind, input_dtype(kind, r)), periods_[static_cast<std::size_t>(r)]);
      inputs_.back().push_back({arrays_.at(set, r), is_partial(kind, r)});
    }
    for (int r = 0; r < outputs_of(kind); ++r) {
      outputs_.back().push_back(arrays_.at(set, kind.in_place ? r : kind.replicas + r));
    }
  }
  synchronize(first_gpu);
}

Launch ReduceWork::launch() const {
  return [this](Stream stream, int number) {
    const std::size_t set = static_cast<std::size_t>(number) % inputs_.size();
    const std::int64_t count = kind_.bytes / static_cast<std::int64_t>(size_of(kind_.dtype));
    return Backend::of_this_process().kernels().reduce(sum_of(kind_, inputs_[set], merges_, outputs_[set]), count,
                                                       stream);
  };
}

std::int64_t ReduceWork::count_wrong() const {
  const std::size_t count = periods_.back().size() / size_of(kind_.dtype);  // the last input is never a partial result
  const DType dtype = output_dtype(kind_);
  Bytes expected(count * size_of(dtype));
  void* const target = expected.data();
  std::vector<detail::FoldInput> inputs;
  for (const Bytes& period : periods_) {
    inputs.push_back({period.data(), is_partial(kind_, static_cast<int>(inputs.size()))});
  }
  reduce(sum_of(kind_, inputs, merges_, std::span(&target, 1)), static_cast<std::int64_t>(count));
  std::int64_t wrong = 0;
  const std::int64_t bytes = bytes_of(kind_, dtype);
  const std::int64_t looked_at = std::min(bytes, most_looked_at);
  for (void* const output : outputs_.front()) {
    for (const std::int64_t begin : {std::int64_t{0}, bytes - looked_at}) {
      const Bytes found = fetched(static_cast<std::byte*>(output) + begin, looked_at);
      const std::int64_t first = begin / static_cast<std::int64_t>(size_of(dtype));
      wrong += count_unlike(found, first, expected, dtype, result_of(kind_));
    }
  }
  return wrong;
}

std::int64_t ReduceWork::moved_bytes(const ReduceKind& kind) noexcept {
  std::int64_t bytes = outputs_of(kind) * bytes_of(kind, output_dtype(kind));
  for (int r = 0; r < kind.replicas; ++r) bytes += bytes_of(kind, input_dtype(kind, r));
  return bytes;
}

std::int64_t ReduceWork::memory_bytes(const ReduceKind& kind) {
  return DeviceArrays::memory_bytes(arrays_of(kind), bytes_of(kind, widest_dtype(kind)));
}

PackWork::PackWork(std::span<const std::int64_t> bytes_of_tensors, Alignment alignment, PackDirection direction) {
  std::int64_t room = 0;
  for (const std::int64_t size : bytes_of_tensors) {
    bytes_ += size;
    room += (size + 511) / 256 * 256;
  }
  tensors_ = zeros_on_gpu(room);
  packed_ = zeros_on_gpu(bytes_ + 256);
  const Bytes period = awkward_values(DType::u8, 65'521, 1);  // a prime number, so that consecutive tensors differ
  const std::size_t distance = alignment == Alignment::aligned ? 0 : sizeof(float);
  auto* const tensors = static_cast<std::byte*>(tensors_.data());
  auto* const packed = static_cast<std::byte*>(packed_.data());
  direction == PackDirection::pack ? repeat(tensors, room, period) : repeat(packed, bytes_ + 256, period);
  synchronize(first_gpu);
  std::byte* next_tensor = tensors + distance;
  std::byte* next_packed = packed + distance;
  for (const std::int64_t size : bytes_of_tensors) {
    const auto bytes = static_cast<std::size_t>(size);
    if (direction == PackDirection::pack) pieces_.push_back({next_tensor, next_packed, bytes});
    if (direction == PackDirection::unpack) pieces_.push_back({next_packed, next_tensor, bytes});
    next_tensor += (size + 511) / 256 * 256;
    next_packed += size;
  }
}

Launch PackWork::launch() const {
  return [this](Stream stream, int /*number*/) { return Backend::of_this_process().kernels().copy(pieces_, stream); };
}

std::int64_t PackWork::count_wrong() const {
  std::int64_t wrong = 0;
  for (const detail::cuda::CopyRegion& piece : pieces_) {
    const auto size = static_cast<std::int64_t>(piece.bytes);
    auto* const source = static_cast<std::byte*>(const_cast<void*>(piece.source));
    wrong += fetched(source, size) == fetched(static_cast<std::byte*>(piece.target), size) ? 0 : 1;
  }
  return wrong;
}

}  // namespace lockstep::test
