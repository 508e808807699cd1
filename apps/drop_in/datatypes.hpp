// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's datatypes and operations: what lockstep can reduce, and buffers as contiguous bytes.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace lockstep::drop_in {

/// A reduction of elements of a predefined type by a predefined operation. Equal on all ranks if the ranks pass equal
/// types and operations.
struct Reduction {
  enum class Form : std::uint8_t {
    plain,     ///< a reduction of lockstep
    logical,   ///< MPI_LAND, MPI_LOR, MPI_LXOR: a reduction of one byte per element, which is 0 or 1
    location,  ///< MPI_MINLOC, MPI_MAXLOC: `minloc` and `maxloc` of lockstep, which take values and indices apart
  };
  Form form = Form::plain;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f64;  ///< of a part of an element
  int parts = 1;             ///< numbers per element: 2 for complex numbers, otherwise 1
  std::size_t bytes = 0;     ///< from one element to the next
  std::size_t index_at = 0;  ///< location: offset of the index
  DType index = DType::i32;  ///< location: type of the index
};

/// None if MPI must make the reduction: a user's operation, a type that is not predefined, a type that lockstep does
/// not have, or a type that MPI does not permit with `op`. Local. Thread-safe.
[[nodiscard]] std::optional<Reduction> reduction_of(MPI_Datatype type, MPI_Op op);

/// Writes one byte per element to `to`: whether the integer is not 0. `count` elements of `dtype`.
void to_truth(DType dtype, const void* elements, std::int64_t count, std::uint8_t* to);
/// Writes 0 or 1 as integers of `dtype` for the bytes of `truth`.
void from_truth(const std::uint8_t* truth, std::int64_t count, DType dtype, void* elements);

/// Writes the values and the indices of `count` pairs, without gaps, to `values` and `indices`.
void split_pairs(const Reduction& reduction, const std::byte* pairs, std::int64_t count, std::byte* values,
                 std::byte* indices);
/// The reverse. Does not write the gaps of pairs.
void join_pairs(const Reduction& reduction, const std::byte* values, const std::byte* indices, std::int64_t count,
                std::byte* pairs);

/// Bytes of `count` elements without gaps; 0 for a negative count or MPI_DATATYPE_NULL. By MPI's rules, this number is
/// the same for sender and receiver, even if they describe the elements by different types.
[[nodiscard]] std::int64_t packed_bytes(std::int64_t count, MPI_Datatype type);

/// Memory for one call. Small memory is kept for the next call of this thread: equal calls get equal addresses, so that
/// prepared operations are found again. `use` tells apart the buffers of one call.
enum class StagingUse : std::uint8_t { input, output };
[[nodiscard]] std::byte* staging(StagingUse use, std::int64_t bytes);
/// Frees large memory of this thread. Called at the end of a call.
void release_staging();

/// An argument of this rank that MPI would refuse.
struct BadArgument {
  int error_class;  ///< of MPI
  const char* text;
  bool is_after_call = false;  ///< found when all ranks had made the call: the others do not wait for this rank
};

/// An array of counts or places, which are of type int, or MPI_Count or MPI_Aint. Refers to the user's array; may be
/// null.
class CountArray {
 public:
  CountArray() = default;
  template <class T>
    requires(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8))
  CountArray(const T* numbers) : numbers_(numbers), is_wide_(sizeof(T) == 8) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool is_null() const noexcept { return numbers_ == nullptr; }
  [[nodiscard]] std::int64_t operator[](int i) const noexcept {
    if (!is_wide_) return static_cast<const std::int32_t*>(numbers_)[i];
    std::int64_t number;  // MPI_Count may be another type of 64 bits
    std::memcpy(&number, static_cast<const std::byte*>(numbers_) + sizeof number * static_cast<std::size_t>(i),
                sizeof number);
    return number;
  }

 private:
  const void* numbers_ = nullptr;
  bool is_wide_ = false;
};

/// Parts of a user's buffer, one for each of `ranks` ranks. A reference to the arguments of a call of MPI.
struct Parts {
  const void* buffer = nullptr;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int ranks = 1;
  std::int64_t equal_count = 0;  ///< elements of each part if `counts` is null: then there are no gaps between parts
  CountArray counts = {};        ///< elements of each part
  CountArray places = {};        ///< first element of each part

  [[nodiscard]] std::int64_t count(int part) const noexcept { return counts.is_null() ? equal_count : counts[part]; }
  [[nodiscard]] std::int64_t place(int part) const noexcept {
    return places.is_null() ? part * equal_count : places[part];
  }
  /// Throws BadArgument for a null type, a negative count, or a null array of counts or places.
  void check() const;
};

/// A user's buffer as contiguous bytes: the buffer itself if its elements are contiguous and its parts have no gaps
/// between them, otherwise staging memory. Making one throws BadArgument if MPI would refuse the parts.
class Contiguous {
 public:
  /// For data that is read: packs it, if necessary. If `copies` is true, the bytes are always a copy.
  [[nodiscard]] static Contiguous input(const Parts& parts, MPI_Comm comm, bool copies = false);
  /// For data that is written: call `unpack` after it has been written.
  [[nodiscard]] static Contiguous output(const Parts& parts);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t bytes(int part) const noexcept { return parts_.count(part) * bytes_per_element_; }
  [[nodiscard]] std::int64_t total() const noexcept { return total_; }
  /// The first byte of part `part`.
  [[nodiscard]] std::byte* part(int part) const noexcept;
  /// Packs part `part` of the user's buffer to its place.
  void pack(int part, MPI_Comm comm) const;
  /// Called when all ranks have made the call.
  void unpack(MPI_Comm comm) const;

 private:
  Contiguous(const Parts& parts, StagingUse use);

  Parts parts_;
  std::int64_t bytes_per_element_ = 0;
  std::int64_t total_ = 0;
  std::byte* data_ = nullptr;
  bool is_direct_ = true;
};

}  // namespace lockstep::drop_in
