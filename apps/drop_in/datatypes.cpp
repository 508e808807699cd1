// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "drop_in/datatypes.hpp"

#include <lockstep/device/arena.hpp>
#include <lockstep/device/tensor.hpp>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

namespace lockstep::drop_in {
namespace {

enum class Class : std::uint8_t { integer, other_integer, truth, byte, floating, complex, pair };

struct Type {
  MPI_Datatype handle;
  Class what;
  DType dtype;
  std::size_t bytes;
  std::size_t index_at = 0;
  DType index = DType::i32;
};

DType signed_integer(std::size_t bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}
DType unsigned_integer(std::size_t bytes) {
  return bytes == 1 ? DType::u8 : bytes == 2 ? DType::u16 : bytes == 4 ? DType::u32 : DType::u64;
}

bool before(const Type& a, const Type& b) { return std::less<>()(a.handle, b.handle); }

/// A pair as C declares it: a value and then an int; in Fortran's pairs, both have the type of the value.
template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

template <class Value, class Index>
Type pair(MPI_Datatype handle, DType value, DType index) {
  using Layout = Pair<Value, Index>;
  return {handle, Class::pair, value, sizeof(Layout), offsetof(Layout, index), index};
}

/// The predefined types that lockstep reduces, sorted by handle. Fortran's types are handles of their own; their sizes
/// depend on the options of the Fortran compiler, so MPI is asked.
std::vector<Type> make_types() {
  std::vector<Type> types;
  const auto add = [&](Class what, MPI_Datatype handle, auto dtype_of) {
    int bytes = 0;
    if (handle == MPI_DATATYPE_NULL || PMPI_Type_size(handle, &bytes) != MPI_SUCCESS || bytes <= 0) return;
    const auto size = static_cast<std::size_t>(bytes);
    types.push_back({handle, what, dtype_of(size), size});
  };
  const std::array integers{MPI_SIGNED_CHAR, MPI_SHORT,   MPI_INT,     MPI_LONG,   MPI_LONG_LONG,
                            MPI_INT8_T,      MPI_INT16_T, MPI_INT32_T, MPI_INT64_T};
  const std::array unsigned_integers{MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT,     MPI_UNSIGNED,
                                     MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
                                     MPI_UINT16_T,      MPI_UINT32_T,           MPI_UINT64_T};
  for (MPI_Datatype handle : integers) add(Class::integer, handle, signed_integer);
  for (MPI_Datatype handle : unsigned_integers) add(Class::integer, handle, unsigned_integer);
  for (MPI_Datatype handle : {MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER}) {
    add(Class::other_integer, handle, signed_integer);
  }
  add(Class::byte, MPI_BYTE, unsigned_integer);
  // results are 0 or 1, as those of Open MPI and MPICH are
  for (MPI_Datatype handle : {MPI_LOGICAL, MPI_C_BOOL}) add(Class::truth, handle, unsigned_integer);
  const auto real = [](std::size_t bytes) { return bytes == 4 ? DType::f32 : DType::f64; };
  const auto half = [](std::size_t bytes) { return bytes == 8 ? DType::f32 : DType::f64; };
  for (MPI_Datatype handle : {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION}) {
    add(Class::floating, handle, real);
  }
  for (MPI_Datatype handle : {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX}) {
    add(Class::complex, handle, half);
  }
  // optional types of Fortran, which some libraries define as MPI_DATATYPE_NULL
  for (MPI_Datatype handle : {MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8}) {
    add(Class::other_integer, handle, signed_integer);
  }
  for (MPI_Datatype handle : {MPI_REAL4, MPI_REAL8}) add(Class::floating, handle, real);
  for (MPI_Datatype handle : {MPI_COMPLEX8, MPI_COMPLEX16}) add(Class::complex, handle, half);
#ifdef MPI_CXX_FLOAT_COMPLEX
  for (MPI_Datatype handle : {MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX}) add(Class::complex, handle, half);
#endif
  types.push_back(pair<float, int>(MPI_FLOAT_INT, DType::f32, DType::i32));
  types.push_back(pair<double, int>(MPI_DOUBLE_INT, DType::f64, DType::i32));
  types.push_back(pair<long, int>(MPI_LONG_INT, signed_integer(sizeof(long)), DType::i32));
  types.push_back(pair<short, int>(MPI_SHORT_INT, DType::i16, DType::i32));
  types.push_back(pair<int, int>(MPI_2INT, DType::i32, DType::i32));
  int bytes = 0;
  if (PMPI_Type_size(MPI_REAL, &bytes) == MPI_SUCCESS && bytes == 4)
    types.push_back(pair<float, float>(MPI_2REAL, DType::f32, DType::f32));
  if (PMPI_Type_size(MPI_DOUBLE_PRECISION, &bytes) == MPI_SUCCESS && bytes == 8)
    types.push_back(pair<double, double>(MPI_2DOUBLE_PRECISION, DType::f64, DType::f64));
  if (PMPI_Type_size(MPI_INTEGER, &bytes) == MPI_SUCCESS && bytes == 4)
    types.push_back(pair<int, int>(MPI_2INTEGER, DType::i32, DType::i32));
  std::erase_if(types, [](const Type& type) {
    if (type.handle == MPI_DATATYPE_NULL) return true;
    return type.bytes > 8 * (type.what == Class::complex || type.what == Class::pair ? 2 : 1);
  });
  std::sort(types.begin(), types.end(), before);
  return types;
}

const Type* find_type(MPI_Datatype handle) {
  static const std::vector<Type> types = make_types();
  const auto found = std::lower_bound(types.begin(), types.end(), Type{handle, {}, {}, 0}, before);
  return found != types.end() && found->handle == handle ? &*found : nullptr;
}

/// MPI's operations as lockstep's; for logical operations, the operation on bytes that are 0 or 1; for locations, min
/// or max.
struct Operation {
  MPI_Op handle;
  Reduction::Form form;
  ReduceOp op;
};

const Operation* find_operation(MPI_Op handle) {
  using enum Reduction::Form;
  static const std::array operations{
      Operation{MPI_SUM, plain, ReduceOp::sum},       Operation{MPI_MAX, plain, ReduceOp::max},
      Operation{MPI_MIN, plain, ReduceOp::min},       Operation{MPI_PROD, plain, ReduceOp::prod},
      Operation{MPI_BAND, plain, ReduceOp::band},     Operation{MPI_BOR, plain, ReduceOp::bor},
      Operation{MPI_BXOR, plain, ReduceOp::bxor},     Operation{MPI_LAND, logical, ReduceOp::band},
      Operation{MPI_LOR, logical, ReduceOp::bor},     Operation{MPI_LXOR, logical, ReduceOp::bxor},
      Operation{MPI_MAXLOC, location, ReduceOp::max}, Operation{MPI_MINLOC, location, ReduceOp::min}};
  const auto found = std::find_if(operations.begin(), operations.end(),
                                  [handle](const Operation& operation) { return operation.handle == handle; });
  return found != operations.end() ? &*found : nullptr;
}

/// Whether the MPI standard permits `operation` with a type of class `what`, and lockstep has it. Logical operations
/// are for integers of C and logical types only.
bool is_permitted(const Operation& operation, Class what) {
  switch (what) {
    case Class::integer: return operation.form != Reduction::Form::location;
    case Class::other_integer: return operation.form == Reduction::Form::plain;
    case Class::truth: return operation.form == Reduction::Form::logical;
    case Class::byte: return operation.form == Reduction::Form::plain && is_bitwise(operation.op);
    case Class::floating: return operation.form == Reduction::Form::plain && !is_bitwise(operation.op);
    case Class::complex: return operation.form == Reduction::Form::plain && operation.op == ReduceOp::sum;
    case Class::pair: return operation.form == Reduction::Form::location;
  }
  return false;
}

/// Calls `call` with a value of the C++ type of `dtype`, which is an integer.
template <class Call>
void with_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::i8: return call(std::int8_t{});
    case DType::u8: return call(std::uint8_t{});
    case DType::i16: return call(std::int16_t{});
    case DType::u16: return call(std::uint16_t{});
    case DType::i32: return call(std::int32_t{});
    case DType::u32: return call(std::uint32_t{});
    case DType::i64: return call(std::int64_t{});
    case DType::u64: return call(std::uint64_t{});
    default: return;
  }
}

/// How a type was made.
struct Making {
  int combiner = MPI_COMBINER_NAMED;
  /// The type that it was made of, if it was made of one, by MPI_Type_dup or MPI_Type_contiguous.
  MPI_Datatype inner = MPI_DATATYPE_NULL;

  explicit Making(MPI_Datatype type) {
#if MPI_VERSION >= 4
    // the functions without _c refuse types that were made with large counts
    MPI_Count integers = 0;
    MPI_Count addresses = 0;
    MPI_Count large = 0;
    MPI_Count types = 0;
    if (PMPI_Type_get_envelope_c(type, &integers, &addresses, &large, &types, &combiner) != MPI_SUCCESS || !has_inner())
      return;
    int integer = 0;
    MPI_Count count = 0;
    PMPI_Type_get_contents_c(type, integers, 0, large, 1, &integer, nullptr, &count, &inner);
#else
    int integers = 0;
    int addresses = 0;
    int types = 0;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS || !has_inner()) return;
    int integer = 0;
    PMPI_Type_get_contents(type, integers, 0, 1, &integer, nullptr, &inner);
#endif
  }
  [[nodiscard]] bool has_inner() const { return combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS; }
  /// A predefined type must not be freed.
  [[nodiscard]] bool is_predefined() const {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
  }
};

/// Whether `count` elements of `type` are stored without gaps, in the order in which MPI packs them.
bool is_contiguous(MPI_Datatype type) {
  const Making making(type);
  if (making.is_predefined()) {
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    PMPI_Type_get_extent(type, &lower, &extent);
    return lower == 0 && extent == packed_bytes(1, type);
  }
  if (making.inner == MPI_DATATYPE_NULL) return false;
  const bool result = is_contiguous(making.inner);
  MPI_Datatype inner = making.inner;
  if (!Making(inner).is_predefined()) PMPI_Type_free(&inner);
  return result;
}

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return extent;
}

/// Calls `copy(first, count)` for pieces of `count` elements whose packed size fits an int, MPI's type for sizes.
template <class Copy>
void in_pieces(std::int64_t count, std::int64_t bytes_per_element, const Copy& copy) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (bytes_per_element > std::numeric_limits<int>::max())
    throw BadArgument{MPI_ERR_TYPE, "an element of 2 GiB or more, with gaps, cannot be packed"};
  const std::int64_t piece = std::max<std::int64_t>(1, bytes_per_element > 0 ? most / bytes_per_element : most);
  for (std::int64_t first = 0; first < count; first += piece) copy(first, std::min(piece, count - first));
}

/// Memory for `staging`, by use.
std::array<Tensor, 2>& staging_of_thread() {
  static thread_local std::array<Tensor, 2> memory;
  return memory;
}

/// Throws BadArgument if MPI has refused to pack or to unpack.
void check_packed(int result) {
  if (result != MPI_SUCCESS) throw BadArgument{MPI_ERR_TYPE, "MPI cannot pack elements of a datatype"};
}

std::optional<Reduction> find_reduction(MPI_Datatype type, MPI_Op op) {
  const Operation* const operation = find_operation(op);
  const Type* const known = operation != nullptr ? find_type(type) : nullptr;
  if (known == nullptr || !is_permitted(*operation, known->what)) return std::nullopt;
  Reduction reduction{operation->form, operation->op, known->dtype, 1, known->bytes};
  if (known->what == Class::complex) reduction.parts = 2;
  reduction.index_at = known->index_at;
  reduction.index = known->index;
  return reduction;
}

}  // namespace

std::optional<Reduction> reduction_of(MPI_Datatype type, MPI_Op op) {
  struct Last {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    std::optional<Reduction> reduction;
  };
  static thread_local Last last;
  if (last.type != type || last.op != op) last = {type, op, find_reduction(type, op)};
  return last.reduction;
}

void to_truth(DType dtype, const void* elements, std::int64_t count, std::uint8_t* to) {
  with_type(dtype, [&](auto zero) {
    const auto* const from = static_cast<const decltype(zero)*>(elements);
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] != zero ? 1 : 0;
  });
}

void from_truth(const std::uint8_t* truth, std::int64_t count, DType dtype, void* elements) {
  with_type(dtype, [&](auto zero) {
    auto* const to = static_cast<decltype(zero)*>(elements);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<decltype(zero)>(truth[i]);
  });
}

void split_pairs(const Reduction& reduction, const std::byte* pairs, std::int64_t count, std::byte* values,
                 std::byte* indices) {
  const std::size_t value_bytes = size_of(reduction.dtype);
  const std::size_t index_bytes = size_of(reduction.index);
  for (std::int64_t i = 0; i < count; ++i, pairs += reduction.bytes, values += value_bytes, indices += index_bytes) {
    std::memcpy(values, pairs, value_bytes);
    std::memcpy(indices, pairs + reduction.index_at, index_bytes);
  }
}

void join_pairs(const Reduction& reduction, const std::byte* values, const std::byte* indices, std::int64_t count,
                std::byte* pairs) {
  const std::size_t value_bytes = size_of(reduction.dtype);
  const std::size_t index_bytes = size_of(reduction.index);
  for (std::int64_t i = 0; i < count; ++i, pairs += reduction.bytes, values += value_bytes, indices += index_bytes) {
    std::memcpy(pairs, values, value_bytes);
    std::memcpy(pairs + reduction.index_at, indices, index_bytes);
  }
}

std::int64_t packed_bytes(std::int64_t count, MPI_Datatype type) {
  MPI_Count size = 0;  // that of PMPI_Type_size, an int, is undefined from 2 GiB on
  if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return 0;
  std::int64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(count, std::int64_t{size}, &bytes);
  return overflows ? std::numeric_limits<std::int64_t>::max() : bytes;
}

void release_staging() {
  constexpr std::int64_t most_kept = 16 << 20;
  for (Tensor& tensor : staging_of_thread()) {
    if (tensor.view().element_count() > most_kept) tensor = Tensor();
  }
}

std::byte* staging(StagingUse use, std::int64_t bytes) {
  Tensor& tensor = staging_of_thread()[static_cast<std::size_t>(use)];
  if (tensor.view().element_count() < bytes || tensor.view().data == nullptr) {
    tensor = Tensor();  // first frees the old memory
    tensor = Tensor(DType::u8, Shape{std::max<std::int64_t>(bytes, 4096)});
  }
  return static_cast<std::byte*>(tensor.view().data);
}

void Parts::check() const {
  if (type == MPI_DATATYPE_NULL) throw BadArgument{MPI_ERR_TYPE, "a datatype is MPI_DATATYPE_NULL"};
  if (counts.is_null() != places.is_null()) throw BadArgument{MPI_ERR_ARG, "counts or displacements are null"};
  for (int part = 0; part < (counts.is_null() ? 1 : ranks); ++part)
    if (count(part) < 0) throw BadArgument{MPI_ERR_COUNT, "a count is negative"};
}

Contiguous::Contiguous(const Parts& parts, StagingUse use)
    : parts_(parts), bytes_per_element_(packed_bytes(1, parts.type)) {
  parts.check();
  data_ = static_cast<std::byte*>(const_cast<void*>(parts.buffer));
  bool has_begun = false;
  std::int64_t next = 0;  // place of the next part if there are no gaps
  for (int i = 0; i < parts.ranks; ++i) {
    if (parts.count(i) == 0) continue;
    total_ += bytes(i);
    if (!std::exchange(has_begun, true)) next = parts.place(i);
    is_direct_ = is_direct_ && parts.place(i) == next;
    next += parts.count(i);
  }
  if (total_ == 0) return;
  is_direct_ = is_direct_ && is_contiguous(parts.type);
  data_ = is_direct_ ? data_ + next * bytes_per_element_ - total_ : staging(use, total_);
}

Contiguous Contiguous::input(const Parts& parts, MPI_Comm comm, bool copies) {
  Contiguous contiguous(parts, StagingUse::input);
  if (copies && contiguous.is_direct_ && contiguous.total_ > 0) {
    const std::byte* const from = std::exchange(contiguous.data_, staging(StagingUse::input, contiguous.total_));
    std::memcpy(contiguous.data_, from, static_cast<std::size_t>(contiguous.total_));
  }
  for (int i = 0; i < parts.ranks; ++i) contiguous.pack(i, comm);
  return contiguous;
}

Contiguous Contiguous::output(const Parts& parts) { return {parts, StagingUse::output}; }

std::byte* Contiguous::part(int part) const noexcept {
  std::byte* first = data_;
  for (int i = 0; i < part; ++i) first += bytes(i);
  return first;
}

void Contiguous::pack(int part, MPI_Comm comm) const {
  if (is_direct_) return;
  std::byte* const to = this->part(part);
  const std::int64_t extent = extent_of(parts_.type);
  const auto* const from = static_cast<const std::byte*>(parts_.buffer) + parts_.place(part) * extent;
  in_pieces(parts_.count(part), bytes_per_element_, [&](std::int64_t first, std::int64_t count) {
    int at = 0;
    check_packed(PMPI_Pack(from + first * extent, static_cast<int>(count), parts_.type, to + first * bytes_per_element_,
                           static_cast<int>(count * bytes_per_element_), &at, comm));
  });
}

void Contiguous::unpack(MPI_Comm comm) const {
  if (is_direct_) return;
  const std::byte* from = data_;
  const std::int64_t extent = extent_of(parts_.type);
  for (int i = 0; i < parts_.ranks; ++i) {
    auto* const to = static_cast<std::byte*>(const_cast<void*>(parts_.buffer)) + parts_.place(i) * extent;
    try {
      in_pieces(parts_.count(i), bytes_per_element_, [&](std::int64_t first, std::int64_t count) {
        int at = 0;
        check_packed(PMPI_Unpack(from + first * bytes_per_element_, static_cast<int>(count * bytes_per_element_), &at,
                                 to + first * extent, static_cast<int>(count), parts_.type, comm));
      });
    } catch (BadArgument& bad) {
      bad.is_after_call = true;
      throw;
    }
    from += bytes(i);
  }
}

}  // namespace lockstep::drop_in
