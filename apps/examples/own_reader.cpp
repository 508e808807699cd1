// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Two ways to read a format of one's own: by number, with range(n).map, and in order, with from_generator, for streams.

#include <lockstep/lockstep.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

namespace {

using lockstep::Tensor;
using File = std::shared_ptr<std::FILE>;

/// Record number i of the file: three numbers. Any thread may call this at any time.
Tensor read(const File& file, std::int64_t i) {
  std::vector<float> record(3);
  if (::pread(::fileno(file.get()), record.data(), 12, 12 * i) != 12) throw std::runtime_error("a record is short");
  return Tensor::from(record);
}

float sum_of(const Tensor& rows) {
  const auto numbers = rows.elements<float>();
  return std::accumulate(numbers.begin(), numbers.end(), 0.0F);
}

}  // namespace

int main() {
  constexpr std::int64_t records = 10;
  const File file(std::tmpfile(), [](std::FILE* opened) { return opened == nullptr ? 0 : std::fclose(opened); });
  if (file == nullptr) return lockstep::exit_code::failure;
  for (float i = 0; i < records; ++i) std::fwrite(std::vector{i, 2 * i, 3 * i}.data(), 12, 1, file.get());
  std::fflush(file.get());

  const auto by_number = lockstep::Dataset<Tensor>::range(records).map(
      [file](const Tensor& i) { return read(file, i.elements<std::int64_t>()[0]); });
  const auto in_order = lockstep::Dataset<Tensor>::from_generator([file] {
    return [file, i = std::int64_t{0}]() mutable -> std::optional<Tensor> {  // one pass
      if (i == records) return std::nullopt;
      return read(file, i++);
    };
  });
  lockstep::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  for (const auto& dataset : {by_number.shuffle(1), in_order}) {
    float sum = 0;
    for (const auto& part : strategy.experimental_distribute_dataset(dataset.batch(4)))
      sum += strategy.reduce(lockstep::ReduceOp::sum, strategy.run(sum_of, part));
    std::printf("sum of all numbers %g\n", sum);
  }
}
