// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Parsers for the values of options. Every error names the option, the text and the rule.

#pragma once

#include "apps/options/option_error.hpp"
#include "bench/harness/collective.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <fmt/format.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

using ::options::OptionError;
using ::options::refuse;

/// All functions below are local and throw OptionError. This one takes "512", "4K", "16M", "1G": powers of 1024, from 1
/// byte to 2^40.
[[nodiscard]] std::int64_t size_bytes(std::string_view option, std::string_view text);
[[nodiscard]] std::int64_t whole_number(std::string_view option, std::string_view text, std::int64_t least,
                                        std::int64_t most, std::string_view rule);
/// The position of `text` among `names`.
[[nodiscard]] std::size_t one_of(std::string_view option, std::string_view text,
                                 std::span<const std::string_view> names);
[[nodiscard]] inline std::size_t one_of(std::string_view option, std::string_view text,
                                        std::initializer_list<std::string_view> names) {
  return one_of(option, text, std::span(names.begin(), names.size()));
}
/// "f32", "f32,bf16", "all"; also NumPy's and nccl-tests' names, such as "float32", "float", "half".
[[nodiscard]] std::vector<lockstep::DType> dtypes(std::string_view option, const std::string& text);
/// "sum", "sum,max", "all"; also "avg" for "mean".
[[nodiscard]] std::vector<lockstep::ReduceOp> reduce_ops(std::string_view option, const std::string& text);

/// "blocking", "async,in_flight", "all".
[[nodiscard]] std::vector<Form> forms(std::string_view option, const std::string& text);
/// "all_reduce", "all_reduce,broadcast", "all"; also "allreduce", "AllReduce", "bcast".
[[nodiscard]] std::vector<Collective> collectives(std::string_view option, const std::string& text);

}  // namespace perf
