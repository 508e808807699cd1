// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets: their creation, and one pass over their elements.

#include <lockstep/lockstep.hpp>

#include "shortages/trial.hpp"
#include "support/logical_cpus.hpp"
#include "unit/input/files.hpp"

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::shortages {
namespace {

constexpr int count = 6;

std::string file_with(const Rank& rank, const std::string& name, const std::string& bytes) {
  const auto path = rank.directory() / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

template <class T>
void read_all(const Dataset<T>& dataset, int expected = count) {
  int read = 0;
  for ([[maybe_unused]] const T& element : dataset) ++read;
  if (read != expected) throw std::runtime_error("wrong number of elements: " + std::to_string(read));
}

void array(Rank& rank) {
  const std::vector<float> values(count, 1.0F);
  rank.tries_alone([&] { read_all(array_dataset(values)); });
}

void csv(Rank& rank) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += "1.5,2\n";
  const std::string path = file_with(rank, "data.csv", lines);
  const FileList files{path};
  const CsvOptions options{.columns = {{.count = 2}}};
  rank.tries_alone([&] { read_all(csv_dataset<Tensor>(files, options)); });
}

void npy_rows(Rank& rank) {
  const FileList files{
      file_with(rank, "data.npy", npy("<f4", "(6, 2)", bytes_of(std::vector<float>(2 * count, 1.0F))))};
  rank.tries_alone([&] { read_all(npy_dataset(files)); });
}

void npz_rows(Rank& rank) {
  const Bytes array = npy("<f4", "(6, 2)", bytes_of(std::vector<float>(2 * count, 1.0F)));
  const FileList files{file_with(rank, "data.npz", zip({{"x.npy", array}}))};
  const std::vector<std::string> names{"x"};
  rank.tries_alone([&] { read_all(npz_dataset<Tensor>(files, names)); });
}

void idx(Rank& rank) {
  const Bytes head("\x00\x00\x08\x02\x00\x00\x00\x06\x00\x00\x00\x02", 12);
  const FileList files{file_with(rank, "data.idx", head + Bytes(2 * count, '\x01'))};
  rank.tries_alone([&] { read_all(idx_dataset(files)); });
}

void records(Rank& rank) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) bytes += tfrecord("record");
  const FileList files{file_with(rank, "data.tfrecord", bytes)};
  rank.tries_alone([&] { read_all(tfrecord_dataset(files)); });
}

void lines(Rank& rank) {
  const FileList files{file_with(rank, "a.txt", "1\n2\n3\n"), file_with(rank, "b.txt", "4\n5\n6\n")};
  const RecordOptions options{.interleave = {.cycle_length = 2}};
  rank.tries_alone([&] { read_all(text_line_dataset(files, options)); });
}

void fixed_length(Rank& rank) {
  const FileList files{file_with(rank, "data.bin", Bytes(3 * count, 'x'))};
  rank.tries_alone([&] { read_all(fixed_length_record_dataset(files, 3)); });
}

void transformations(Rank& rank) {
  const auto range = Dataset<Tensor>::range(2 * count);
  rank.tries_alone([&] { read_all(range.shuffle(3).batch(2).cache()); });
}

void map(Rank& rank) {
  const auto range = Dataset<Tensor>::range(count);
  rank.tries_alone(
      [&] { read_all(range.map([](const Tensor& element) { return element; }, MapOptions{.num_parallel_calls = 3})); });
}

void map_of_batches(Rank& rank) {
  const auto range = Dataset<Tensor>::range(2 * count);
  rank.tries_alone([&] {
    read_all(range.map([](const Tensor& element) { return element; }, MapOptions{.num_parallel_calls = 3}).batch(2));
  });
}

void prefetch(Rank& rank) {
  const auto range = Dataset<Tensor>::range(count);
  rank.tries_alone([&] { read_all(range.prefetch(2)); });
}

void distribute(Rank& rank) {
  MirroredStrategy strategy(test::logical_cpus(2));
  const auto range = Dataset<Tensor>::range(4 * count).batch(4);
  rank.tries_alone([&] {
    auto distributed = strategy.experimental_distribute_dataset(range);
    int read = 0;
    for ([[maybe_unused]] const auto& batch : distributed) ++read;
    if (read != count) throw std::runtime_error("wrong number of batches");
  });
}

void get_next(Rank& rank) {
  MultiWorkerMirroredStrategy strategy(rank.communicator());
  auto iterator = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(4 * count).batch(4)).iterate();
  const Communicator comm = strategy.communicator();
  rank.tries([&] { static_cast<void>(iterator.get_next()); }, comm);
}

}  // namespace

std::vector<Row> input_rows() {
  return {{"array_dataset", {0}, array},
          {"csv_dataset", {0}, csv},
          {"npy_dataset", {0}, npy_rows},
          {"npz_dataset", {0}, npz_rows},
          {"idx_dataset", {0}, idx},
          {"tfrecord_dataset", {0}, records},
          {"text_line_dataset", {0}, lines},
          {"fixed_length_record_dataset", {0}, fixed_length},
          {"dataset_transformations", {0}, transformations},
          {"dataset_map", {0}, map},
          {"dataset_map_of_batches", {0}, map_of_batches},
          {"dataset_prefetch", {0}, prefetch},
          {"distributed_dataset", {0}, distribute},
          {"get_next", {0, 0}, get_next}};
}

}  // namespace lockstep::shortages
