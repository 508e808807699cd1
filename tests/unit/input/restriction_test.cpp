// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Restricting a dataset to the part of one of several readers.

#include "files.hpp"
#include "input/node.hpp"

#include <lockstep/input/records.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using Texts = std::vector<Bytes>;

class Restriction : public Files {
 protected:
  Restriction() {
    for (const char* const name : {"a", "b", "c"}) files_.push_back(write(name, Bytes(name) + "1" + name + "2"));
  }
  /// Datasets of files as streams and with random access.
  [[nodiscard]] std::vector<Dataset<Tensor>> datasets() const {
    FileList lines;
    for (const auto& file : files_) {
      const Bytes name = std::filesystem::path(file).filename().string();
      lines.push_back(write(name + ".txt", name + "1\n" + name + "2\n"));
    }
    return {fixed_length_record_dataset(files_, 2), text_line_dataset(lines)};
  }
  static Dataset<Tensor> restricted(const Dataset<Tensor>& dataset, const input::Restriction& restriction) {
    return Dataset<Tensor>(input::Pipeline::from_node(dataset.pipeline().node()->restricted(restriction)));
  }
  static Dataset<Tensor> part(const Dataset<Tensor>& dataset, std::int64_t count, std::int64_t index) {
    return restricted(dataset, {.files = input::Part{count, index}});
  }
  FileList files_;
};

TEST_F(Restriction, takes_every_nth_file) {
  for (const auto& dataset : datasets()) {
    EXPECT_EQ(dataset.pipeline().node()->files().size(), 3U);
    EXPECT_EQ(texts(part(dataset, 2, 0)), (Texts{"a1", "a2", "c1", "c2"}));
    EXPECT_EQ(texts(part(dataset, 2, 1)), (Texts{"b1", "b2"}));
    EXPECT_EQ(part(dataset, 3, 2).pipeline().node()->files().size(), 1U);
    EXPECT_EQ(texts(part(dataset, 1, 0)), texts(dataset));
  }
}

TEST_F(Restriction, passes_through_transformations_to_the_sources) {
  const auto echo = [](const Tensor& element) { return element.clone(); };
  for (const auto& plain : datasets()) {
    const auto dataset = plain.shuffle(1)
                             .map(echo)
                             .map(echo, {.num_parallel_calls = 2})
                             .cache()
                             .filter([](const Tensor& element) { return text_of(element) != "a1"; })
                             .shard(1, 0)
                             .repeat(2)
                             .skip(1)
                             .take(100)
                             .prefetch(2)
                             .concatenate(plain)
                             .batch(2)
                             .map_rows(echo)
                             .unbatch();
    EXPECT_EQ(texts(dataset).size(), 15U);
    EXPECT_EQ(texts(part(dataset, 3, 0)).size(), 3U);
    EXPECT_EQ(texts(part(dataset, 3, 1)).size(), 5U);
    EXPECT_EQ(part(dataset, 3, 2).pipeline().node()->files().size(), 2U);
    const auto pairs = zip(dataset, plain.enumerate());
    EXPECT_EQ(pairs.pipeline().node()->restricted({.files = input::Part{3, 1}})->files().size(), 3U);
  }
}

TEST_F(Restriction, requires_a_file_for_each_part) {
  for (const auto& dataset : datasets()) {
    expect_error(Code::invalid_argument, {"4 shards of 3 files", "shard 3", "file"},
                 [&] { static_cast<void>(part(dataset.shuffle(1).batch(2), 4, 3)); });
  }
}

TEST_F(Restriction, by_file_is_refused_if_a_source_is_not_files) {
  const auto range = Dataset<Tensor>::range(4);
  for (const auto& dataset : {range, range.shuffle(1).batch(2), range.filter([](const Tensor&) { return true; }),
                              datasets()[0].concatenate(range.map([](const Tensor& e) { return e; }))}) {
    EXPECT_TRUE(dataset.pipeline().node()->files().empty());
    expect_error(Code::invalid_argument, {"not files"}, [&] { static_cast<void>(part(dataset, 2, 0)); });
  }
}

TEST_F(Restriction, replaces_shard_hints) {
  for (const auto& plain : datasets()) {
    for (const auto& dataset :
         {plain.shard(shard_hint, shard_hint), plain.shard(shard_hint, shard_hint).repeat(1).take(9)}) {
      EXPECT_TRUE(dataset.pipeline().node()->has_shard_hint());
      const auto second = restricted(dataset, {.hinted = input::Part{2, 1}});
      EXPECT_FALSE(second.pipeline().node()->has_shard_hint());
      EXPECT_EQ(texts(second), (Texts{"a2", "b2", "c2"}));
    }
    EXPECT_FALSE(plain.shard(2, 1).batch(2).pipeline().node()->has_shard_hint());
  }
}

}  // namespace
}  // namespace lockstep
