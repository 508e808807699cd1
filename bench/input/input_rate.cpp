// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/input/input_rate.hpp"

#include "bench/harness/statistics.hpp"
#include "bench/input/input_files.hpp"

#include <lockstep/lockstep.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <utility>

namespace perf {
namespace {

using lockstep::Dataset;
using lockstep::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t batch_rows = 256;

/// The result of a pass over a file.
struct Pass {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  Hash hash;
};

/// Reads `dataset` to its end. Looks at every byte if `look` is true, else only counts.
Pass read_pass(const Dataset<Tensor>& dataset, bool look, bool is_batched) {
  Pass pass;
  for (const Tensor& element : dataset) {
    pass.rows += is_batched ? element.shape()[0] : 1;
    pass.bytes += static_cast<std::int64_t>(element.byte_count());
    if (look) pass.hash.add({static_cast<const std::byte*>(element.data()), element.byte_count()});
  }
  return pass;
}

/// Processor time of this thread, in seconds.
double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Sum of the bytes, for data that arrives in any order.
bool has_same_bytes(const Dataset<Tensor>& dataset, std::uint64_t expected) {
  std::uint64_t sum = 0;
  for (const Tensor& element : dataset) {
    for (const std::uint8_t byte : element.elements<std::uint8_t>()) sum += byte;
  }
  return sum == expected;
}

bool has_scaled_bytes(const Dataset<Tensor>& dataset, std::uint64_t expected) {
  std::uint64_t sum = 0;
  for (const Tensor& element : dataset) {
    for (const float value : element.elements<float>()) sum += static_cast<std::uint64_t>(std::lround(value * 255));
  }
  return sum == expected;
}

class InputBench {
 public:
  explicit InputBench(std::int64_t iterations) : passes_(std::max<std::int64_t>(iterations, 1)) {}

  void add(const char* format, const char* reading, const InputFile& file, const Dataset<Tensor>& dataset,
           bool is_batched = true) {
    const Pass first = read_pass(dataset, true, is_batched);
    const bool is_right = first.hash == file.hash && first.rows == file.rows;
    add(format, reading, file, is_right, [&] { return read_pass(dataset, false, is_batched).rows == file.rows; });
  }
  /// `pass` returns whether the number of rows was right.
  void add(const char* format, const char* reading, const InputFile& file, bool is_right,
           const std::function<bool()>& pass) {
    InputRate rate{.format = format,
                   .reading = reading,
                   .rows = file.rows,
                   .file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(file.path)),
                   .decoded_bytes = file.decoded_bytes,
                   .is_right = is_right};
    std::vector<double> seconds;
    std::vector<double> cpu_seconds;
    for (std::int64_t i = 0; i < passes_; ++i) {
      const auto start = Clock::now();
      const double cpu_start = cpu_now();
      rate.is_right = pass() && rate.is_right;
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      cpu_seconds.push_back(cpu_now() - cpu_start);
    }
    rate.seconds = median(std::move(seconds));
    rate.cpu_seconds = median(std::move(cpu_seconds));
    rates_.push_back(std::move(rate));
  }
  [[nodiscard]] std::vector<InputRate> rates() && { return std::move(rates_); }

 private:
  std::int64_t passes_;
  std::vector<InputRate> rates_;
};

void add_images(InputBench& bench, const InputFile& images) {
  const auto rows = lockstep::idx_dataset({images.path});
  const bool is_right = read_pass(rows.batch(batch_rows), true, true).hash == images.hash;
  bench.add("IDX", "open, batch", images, is_right, [&] {
    return read_pass(lockstep::idx_dataset({images.path}).batch(batch_rows), false, true).rows == images.rows;
  });
  bench.add("IDX", "batch", images, rows.batch(batch_rows));
  const auto shuffled = rows.shuffle(1).batch(batch_rows);
  bench.add("IDX", "shuffle, batch", images, has_same_bytes(shuffled, images.byte_sum),
            [&] { return read_pass(shuffled, false, true).rows == images.rows; });
  const auto scaled = rows.batch(batch_rows).map_rows([](const Tensor& batch, const auto& memory) {
    return lockstep::input::scale_to_float(batch, 1.0F / 255, memory);
  });
  bench.add("IDX", "batch, scale to f32", images, has_scaled_bytes(scaled, images.byte_sum),
            [&] { return read_pass(scaled, false, true).rows == images.rows; });
}

}  // namespace

std::vector<InputRate> measure_input(std::int64_t iterations) {
  const InputFolder folder;
  InputBench bench(iterations);
  add_images(bench, folder.images());
  const InputFile npy = folder.npy();
  bench.add("npy", "batch", npy, lockstep::npy_dataset({npy.path}).batch(batch_rows));
  const InputFile big_endian = folder.big_endian_npy();
  bench.add("npy, big-endian", "batch", big_endian, lockstep::npy_dataset({big_endian.path}).batch(batch_rows));
  const InputFile raw = folder.raw_records();
  bench.add("raw records", "batch", raw,
            lockstep::fixed_length_record_dataset({raw.path}, record_bytes).batch(batch_rows));
  const InputFile records = folder.tfrecords();
  bench.add("TFRecord", "batch", records, lockstep::tfrecord_dataset({records.path}).batch(batch_rows));
  const InputFile packed = folder.packed_tfrecords();
  bench.add("TFRecord, gzip", "batch", packed, lockstep::tfrecord_dataset({packed.path}).batch(batch_rows));
  const InputFile text = folder.text();
  bench.add("text", "lines", text, lockstep::text_line_dataset({text.path}), false);
  const InputFile csv = folder.csv();
  const lockstep::CsvOptions options{.columns = std::vector<lockstep::CsvColumn>(csv_columns)};
  bench.add("CSV", "f32, batch", csv, lockstep::csv_dataset<Tensor>({csv.path}, options).batch(batch_rows));
  return std::move(bench).rates();
}

void print_input_rates(const std::vector<InputRate>& rates) {
  fmt::print(
      "# lockstep-perf {}: files to batches on one thread, from the page cache; medians of passes over a file\n"
      "# cpu ms      processor time of the thread; the rates use it, so that other programs do not count\n"
      "# out         bytes of the decoded tensors, before conversion to f32\n#\n"
      "# {:16} {:20} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
      lockstep::build_info().version, "format", "reading", "rows", "file MB", "ms", "cpu ms", "file GB/s", "out GB/s",
      "krows/s");
  for (const InputRate& rate : rates) {
    constexpr double giga = 1e9;
    fmt::print("  {:16} {:20} {:>8} {:>10.1f} {:>10.2f} {:>10.2f} {:>10.3f} {:>10.3f} {:>10.0f}{}\n", rate.format,
               rate.reading, rate.rows, static_cast<double>(rate.file_bytes) / 1e6, rate.seconds * 1e3,
               rate.cpu_seconds * 1e3, static_cast<double>(rate.file_bytes) / rate.cpu_seconds / giga,
               static_cast<double>(rate.decoded_bytes) / rate.cpu_seconds / giga,
               static_cast<double>(rate.rows) / rate.cpu_seconds / 1e3, rate.is_right ? "" : "  WRONG RESULT");
  }
}

}  // namespace perf
