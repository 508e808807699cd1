// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the pages' samples in C++ share. The code between `// sample PAGE NUMBER` and `// end of sample` is quoted in
// FROM_TF_DISTRIBUTE.md: it is the program of a user, without checks, in a context with the names that the page leaves
// open, such as `dataset`. Where a sample has GPUs, its program has logical processors; where it calls tf.function, its
// program has nothing: C++ is compiled already.

#pragma once

#include "unit/strategy/strategies.hpp"

#include <cstdint>
#include <functional>
#include <iostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

namespace lockstep::test {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// Receives the text that is printed to std::cout while this object exists.
class Output {
 public:
  Output() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { std::cout.rdbuf(before_); }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

/// The sum of a tensor of i64.
inline std::int64_t sum_of(const Tensor& input) {
  std::int64_t sum = 0;
  for (const std::int64_t x : input.elements<std::int64_t>()) sum += x;
  return sum;
}

/// Expects `rows` rows of the dataset [[1.]], and returns their sum.
inline Tensor sum_of_ones(const Tensor& input, std::int64_t rows) {
  EXPECT_EQ(input.shape(), (Shape{rows, 1, 1}));
  float sum = 0;
  for (const float x : input.elements<float>()) sum += x;
  EXPECT_EQ(sum, static_cast<float>(rows));
  return Tensor::scalar(sum);
}

/// All elements of a distributed dataset of f32 scalars.
inline std::vector<float> all_of(Strategy& strategy, const DistributedDataset<Tensor>& dataset) {
  std::vector<float> all;
  for (const auto& batch : dataset) {
    for (const Tensor& part : strategy.experimental_local_results(batch)) {
      for (const float x : part.elements<float>()) all.push_back(x);
    }
  }
  return all;
}

/// The TF_CONFIG of the pages, for the worker `index`.
inline std::string tf_config_of(int index) {
  return R"({"cluster": {"worker": ["localhost:12345", "localhost:23456"], "ps": ["localhost:34567"]},)"
         R"( "task": {"type": "worker", "index": )" +
         std::to_string(index) + "}}";
}

/// Runs a sample of a page on the first of two workers, each of which is a thread. The second one makes the same calls.
inline void on_the_first_worker(const std::function<void(Communicator&)>& sample) {
  on_ranks({1, 1}, [&](Communicator& communicator) {
    if (communicator.rank() == 0) return sample(communicator);
    const MultiWorkerMirroredStrategy strategy(
        communicator, {.cluster_resolver = TFConfigClusterResolver::from_text(tf_config_of(1))});
    EXPECT_EQ(strategy.cluster_resolver()->task_type(), "worker");
    EXPECT_EQ(strategy.cluster_resolver()->task_id(), 1);
  });
}

}  // namespace lockstep::test
