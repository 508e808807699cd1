// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/input/csv.hpp>

#include <optional>
#include <tuple>
#include <utility>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::CsvColumn;
  using lockstep::DType;
  fuzz::run(data, size, [](const auto& path) {
    const CsvColumn text{.dtype = std::nullopt};
    fuzz::read_some(lockstep::csv_dataset<std::pair<lockstep::Tensor, lockstep::Tensor>>(
        {path}, {.columns = {text, {DType::i32, "0"}}, .records = {.max_record_bytes = 1 << 16}}));
  });
  fuzz::run(data, size, [](const auto& path) {
    fuzz::read_some(lockstep::csv_dataset<lockstep::Tensor>(
        {path}, {.columns = {{.name = "x"}, {.index = 1}}, .has_header = true, .delimiter = ';'}));
  });
  fuzz::run(data, size, [](const auto& path) {
    fuzz::read_some(lockstep::csv_dataset<std::tuple<lockstep::Tensor, lockstep::Tensor, lockstep::Tensor>>(
        {path}, {.columns = {{DType::boolean}, {DType::f64, "nan"}, {DType::f16}}}));
  });
  return 0;
}
