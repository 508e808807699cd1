// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The body of the kernel for elementwise arithmetic, executed on the host by simulated GPU threads.

#include "kernels/elementwise.hpp"
#include "support/canonical_sum.hpp"
#include "support/run_on_host.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>

namespace lockstep::detail::cuda {
namespace {

using test::Bytes;

/// Which operands are arrays, and which are the target.
enum class Form : std::uint8_t { arrays, left_number, right_number, left_in_place, right_in_place };
constexpr Form forms[]{Form::arrays, Form::left_number, Form::right_number, Form::left_in_place, Form::right_in_place};

struct Case {
  ElementOp op;
  DType dtype;
  Form form;
  std::int64_t count;
  std::size_t distances[3];  ///< of the target and the operands from an aligned address, in elements
};

/// The target after `compute`, with the elements around it.
Bytes computed(const Case& what, const std::function<void(const Elementwise&)>& compute) {
  const std::size_t size = size_of(what.dtype);
  Bytes arrays[3];
  for (std::size_t a = 0; a < 3; ++a) {
    arrays[a] = test::awkward_values(what.dtype, what.count + static_cast<std::int64_t>(what.distances[a]) + 3, a + 1);
    if (a == 2 || what.form == Form::right_in_place) {
      for (std::byte& byte : arrays[a]) {
        if (is_integer(what.dtype)) byte |= std::byte{1};  // no integer is divided by 0
      }
    }
  }
  const auto array = [&](std::size_t a) { return arrays[a].data() + what.distances[a] * size; };
  const auto number = [&](std::size_t a) {
    Operand operand;
    std::memcpy(operand.number.data(), array(a), size);
    return operand;
  };
  compute(
      {.op = what.op,
       .dtype = what.dtype,
       .target = array(0),
       .left = what.form == Form::left_number ? number(1) : Operand{array(what.form == Form::left_in_place ? 0 : 1)},
       .right = what.form == Form::right_number ? number(2) : Operand{array(what.form == Form::right_in_place ? 0 : 2)},
       .count = what.count});
  return arrays[0];
}

TEST(GpuElementwise, has_the_bits_of_the_host_for_every_op_dtype_form_and_alignment) {
  for (const ElementOp op : {ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div}) {
    for (int d = 0; d < dtype_count; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (dtype == DType::boolean) continue;
      for (const Form form : forms) {
        for (const std::int64_t count : {1, 100, 2051, 9000}) {
          for (const Case& what : {Case{op, dtype, form, count, {0, 0, 0}}, Case{op, dtype, form, count, {1, 1, 1}},
                                   Case{op, dtype, form, count, {0, 1, 2}}}) {
            const Bytes got = computed(what, elementwise_on_host);
            const Bytes expected = computed(what, [](const Elementwise& w) { detail::compute_elementwise(w); });
            ASSERT_TRUE(got == expected) << to_string(dtype) << ", op " << static_cast<int>(op) << ", form "
                                         << static_cast<int>(form) << ", " << count << " elements";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::detail::cuda
