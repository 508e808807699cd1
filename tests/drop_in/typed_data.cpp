// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "typed_data.hpp"

#include <complex>
#include <cstddef>
#include <cstring>
#include <limits>

namespace drop_in_test {
namespace {

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void put_floating(MPI_Datatype type, std::byte* at, double value) {
  if (type == MPI_FLOAT) put(at, static_cast<float>(value));
  if (type == MPI_DOUBLE) put(at, value);
  if (type == MPI_LONG_DOUBLE) put(at, static_cast<long double>(value));
  if (type == MPI_C_DOUBLE_COMPLEX) put(at, std::complex<double>(value, value / 3));
  if (type == MPI_C_FLOAT_COMPLEX) {
    put(at, std::complex<float>(static_cast<float>(value), static_cast<float>(value / 3)));
  }
}

template <class Value, class Index>
void put_pair(std::byte* at, int value, int index) {
  struct Pair {
    Value value;
    Index index;
  };
  put(at + offsetof(Pair, value), static_cast<Value>(value));
  put(at + offsetof(Pair, index), static_cast<Index>(index));
}

/// Few values, so that many are equal.
void put_pair(MPI_Datatype type, std::byte* at, Random& random) {
  const int value = below(random, 3) - 1;
  const int index = below(random, 50);
  if (type == MPI_FLOAT_INT) put_pair<float, int>(at, value, index);
  if (type == MPI_DOUBLE_INT) put_pair<double, int>(at, value, index);
  if (type == MPI_SHORT_INT) put_pair<short, int>(at, value, index);
  if (type == MPI_LONG_INT) put_pair<long, int>(at, value, index);
  if (type == MPI_2INT) put_pair<int, int>(at, value, index);
  if (type == MPI_2REAL) put_pair<float, float>(at, value, index);
  if (type == MPI_2DOUBLE_PRECISION) put_pair<double, double>(at, value, index);
}

template <class T>
void reduce(const std::vector<std::vector<std::byte>>& all, std::size_t count, bool is_sum, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<T> values;
    for (const auto& input : all) {
      T value;
      std::memcpy(&value, input.data() + i * sizeof value, sizeof value);
      values.push_back(value);
    }
    while (values.size() > 1) {
      std::vector<T> next;
      for (std::size_t k = 0; k < values.size(); k += 2) {
        const bool has_right = k + 1 < values.size();
        next.push_back(!has_right ? values[k] : is_sum ? values[k] + values[k + 1] : values[k] * values[k + 1]);
      }
      values = next;
    }
    put(out + i * sizeof(T), values.front());
  }
}

}  // namespace

Base::Gap Base::gap() const {
  if (type == MPI_DOUBLE_INT || type == MPI_LONG_INT) return {12, 16};
  if (type == MPI_SHORT_INT) return {2, 4};
  if (type == MPI_LONG_DOUBLE && std::numeric_limits<long double>::digits == 64) return {10, bytes};
  return {0, 0};
}

std::vector<MPI_Op> Base::operations() const {
  switch (kind) {
    case integer:
      return {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
    case floating: return {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
    case complex: return {MPI_SUM};
    case byte: return {MPI_BAND, MPI_BOR, MPI_BXOR};
    case pair: return {MPI_MAXLOC, MPI_MINLOC};
    case other: break;
  }
  return type == MPI_LONG_DOUBLE ? std::vector<MPI_Op>{MPI_MAX, MPI_MIN} : std::vector<MPI_Op>{};
}

std::vector<Base> bases() {
  std::vector<Base> bases{{MPI_INT, 4, Base::integer},
                          {MPI_LONG, 8, Base::integer},
                          {MPI_UINT64_T, 8, Base::integer},
                          {MPI_SHORT, 2, Base::integer},
                          {MPI_SIGNED_CHAR, 1, Base::integer},
                          {MPI_UNSIGNED, 4, Base::integer},
                          {MPI_FLOAT, 4, Base::floating},
                          {MPI_DOUBLE, 8, Base::floating},
                          {MPI_C_DOUBLE_COMPLEX, 16, Base::complex},
                          {MPI_C_FLOAT_COMPLEX, 8, Base::complex},
                          {MPI_BYTE, 1, Base::byte},
                          {MPI_DOUBLE_INT, 16, Base::pair},
                          {MPI_FLOAT_INT, 8, Base::pair},
                          {MPI_SHORT_INT, 8, Base::pair},
                          {MPI_2INT, 8, Base::pair},
                          {MPI_LONG_INT, 16, Base::pair},
                          {MPI_2REAL, 8, Base::pair},
                          {MPI_2DOUBLE_PRECISION, 16, Base::pair},
                          {MPI_CHAR, 1, Base::other},
                          {MPI_LONG_DOUBLE, sizeof(long double), Base::other}};
  // the last pairs are Fortran's, which some libraries lack
  std::erase_if(bases, [](const Base& base) { return base.type == MPI_DATATYPE_NULL; });
  return bases;
}

void fill(const Base& base, std::byte* to, std::int64_t count, std::uint64_t call, int rank) {
  Random random(call * 1000003 + static_cast<std::uint64_t>(rank));
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const at = to + i * static_cast<std::int64_t>(base.bytes);
    std::memset(at, 0, base.bytes);
    if (base.kind == Base::pair) {
      put_pair(base.type, at, random);
    } else if (base.rounds() || base.type == MPI_LONG_DOUBLE) {
      put_floating(base.type, at, (static_cast<double>(random() % 2000001) - 1000000) / 7000);
    } else {
      // sums of small integers overflow by saturation in some libraries, so these are kept small
      const std::uint64_t small = random() % 5 - 2;
      std::uint64_t bits = base.bytes <= 2 || random() % 4 == 0 ? small : random();
      // MPICH 4.0.2 compares unsigned integers as if they were signed
      if (base.type == MPI_UNSIGNED) bits &= 0x7fffffff;
      if (base.type == MPI_UINT64_T) bits >>= 1;
      std::memcpy(at, &bits, base.bytes);
    }
  }
}

std::vector<std::byte> canonical(const Base& base, bool is_sum, std::int64_t count, std::uint64_t call, int ranks) {
  const std::size_t bytes = static_cast<std::size_t>(count) * base.bytes;
  std::vector<std::vector<std::byte>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.emplace_back(bytes);
    fill(base, all.back().data(), count, call, rank);
  }
  std::vector<std::byte> result(bytes);
  // a complex number is summed as two reals
  if (base.type == MPI_FLOAT || base.type == MPI_C_FLOAT_COMPLEX) {
    reduce<float>(all, bytes / sizeof(float), is_sum, result.data());
  } else {
    reduce<double>(all, bytes / sizeof(double), is_sum, result.data());
  }
  return result;
}

}  // namespace drop_in_test
