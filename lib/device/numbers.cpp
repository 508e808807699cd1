// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/numbers.hpp"

#include "core/visit_dtype.hpp"

#include <concepts>
#include <type_traits>
#include <utility>

namespace lockstep::detail {
namespace {

template <class Target, class Source>
NumberConversion convert(Target& target, Source source) {
  if constexpr (std::same_as<Target, Source>) {
    target = source;
  } else if constexpr (std::same_as<Target, bool> || std::same_as<Source, bool>) {
    return NumberConversion::wrong_kind;
  } else if constexpr (!std::integral<Target>) {
    // a 16-bit float converts from and to float only
    using Wide = std::conditional_t<std::is_arithmetic_v<Source> && std::is_arithmetic_v<Target>, Source, float>;
    target = static_cast<Target>(static_cast<Wide>(source));
  } else if constexpr (!std::integral<Source>) {
    return NumberConversion::wrong_kind;
  } else {
    if (!std::in_range<Target>(source)) return NumberConversion::out_of_range;
    target = static_cast<Target>(source);
  }
  return NumberConversion::done;
}

}  // namespace

NumberConversion convert_number(DType target_dtype, void* target, DType source_dtype, const void* source) {
  return visit_dtype(target_dtype, [&]<class Target>() {
    return visit_dtype(source_dtype, [&]<class Source>() {
      return convert(*static_cast<Target*>(target), *static_cast<const Source*>(source));
    });
  });
}

}  // namespace lockstep::detail
