// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives that move parts of their own to every replica, for any transport: each case is called by every rank
// of `comm`, and checked element by element against what each pair of replicas was given.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

namespace lockstep::test {

/// Tensors whose parts are rows of one shape.
struct RowCase {
  DType dtype = DType::f32;
  Shape row;
};
inline std::vector<RowCase> row_list() {
  return {{DType::f32, {}}, {DType::bf16, {33}}, {DType::f64, {5, 7}}, {DType::i64, {0}}, {DType::u8, {4099}}};
}

/// Uneven, and now and then nothing.
inline std::int64_t some_rows(int source, int target, std::size_t item) {
  return (3 * source + 5 * target + static_cast<int>(item)) % 4;
}

/// What `source` gives `target`.
inline Bytes part_values(const RowCase& tensor, std::size_t item, int source, int target, std::int64_t rows) {
  return awkward_values(
      tensor.dtype, rows * tensor.row.element_count(),
      1 + item + 100 * static_cast<std::uint64_t>(target) + 10'000 * static_cast<std::uint64_t>(source));
}

inline void append(Bytes& all, const Bytes& part) { all.insert(all.end(), part.begin(), part.end()); }

/// The inputs and outputs of one item on one rank.
class PartItem {
 public:
  explicit PartItem(const RowCase& tensor) : tensor_(tensor) {}

  void give(std::int64_t rows, Bytes values) {
    memory_.push_back(std::move(values));
    inputs_.emplace_back(memory_.back().data(), tensor_.dtype, shape(rows));
  }
  /// Filled with a pattern that no result has.
  void take(std::int64_t rows) {
    const auto elements = static_cast<std::size_t>(shape(rows).element_count());
    memory_.emplace_back(elements * size_of(tensor_.dtype), std::byte{0xa5});
    outputs_.push_back({memory_.back().data(), tensor_.dtype, shape(rows), Device{}});
  }
  void take_in_place_of(std::size_t input) {
    outputs_.push_back({memory_[input].data(), tensor_.dtype, inputs_[input].shape, Device{}});
  }

  [[nodiscard]] Item item() const { return {inputs_, outputs_}; }
  [[nodiscard]] Bytes result(std::size_t output) const {
    const auto* const begin = static_cast<const std::byte*>(outputs_[output].data);
    return {begin, begin + outputs_[output].byte_count()};
  }

 private:
  [[nodiscard]] Shape shape(std::int64_t rows) const {
    std::vector<std::int64_t> extents{rows};
    extents.insert(extents.end(), tensor_.row.extents().begin(), tensor_.row.extents().end());
    return Shape(extents);
  }

  RowCase tensor_;
  std::deque<Bytes> memory_;  // inputs first
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

inline std::vector<Item> items_of(const std::deque<PartItem>& parts) {
  std::vector<Item> items;
  for (const PartItem& part : parts) items.push_back(part.item());
  return items;
}

/// all_gather_v, or gather_v to `root`. What a replica gives is its part for replica 0.
inline void check_gather_v(Communicator& comm, int root) {
  const auto tensors = row_list();
  const ReplicaLayout& layout = comm.layout();
  std::deque<PartItem> parts;
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PartItem& part = parts.emplace_back(tensors[i]);
    std::int64_t total = 0;
    for (int r = 0; r < layout.replicas(); ++r) {
      rows.push_back(some_rows(r, 0, i));
      total += rows.back();
      if (layout.rank_of(r) == comm.rank()) part.give(rows.back(), part_values(tensors[i], i, r, 0, rows.back()));
    }
    if (root >= 0 && root != comm.rank()) continue;
    part.take(total);
    part.take(total);
  }
  if (root < 0) {
    comm.all_gather_v(items_of(parts), rows);
  } else {
    comm.gather_v_async(items_of(parts), rows, root).wait();
  }
  if (root >= 0 && root != comm.rank()) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Bytes expected;
    for (int r = 0; r < layout.replicas(); ++r) append(expected, part_values(tensors[i], i, r, 0, some_rows(r, 0, i)));
    for (const std::size_t output : {0U, 1U}) EXPECT_EQ(parts[i].result(output), expected) << "item " << i;
  }
}

/// scatter of `rows_each` rows to every replica, or with -1 scatter_v of uneven numbers, which hold for all items.
inline void check_scatter(Communicator& comm, int root, std::int64_t rows_each) {
  const auto tensors = row_list();
  const ReplicaLayout& layout = comm.layout();
  std::vector<std::int64_t> rows;
  std::int64_t total = 0;
  for (int s = 0; s < layout.replicas(); ++s) {
    rows.push_back(rows_each >= 0 ? rows_each : some_rows(0, s, 0));
    total += rows.back();
  }
  const auto part_for = [&](std::size_t i, int s) {
    return part_values(tensors[i], i, 7, s, rows[static_cast<std::size_t>(s)]);
  };
  std::deque<PartItem> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PartItem& part = parts.emplace_back(tensors[i]);
    if (comm.rank() == root) {
      Bytes all;
      for (int s = 0; s < layout.replicas(); ++s) append(all, part_for(i, s));
      part.give(total, all);
    }
    for (int s = layout.first(comm.rank()); s < layout.first(comm.rank() + 1); ++s)
      part.take(rows[static_cast<std::size_t>(s)]);
  }
  if (rows_each >= 0) {
    comm.scatter(items_of(parts), root);
  } else {
    comm.scatter_v(items_of(parts), rows, root);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (int j = 0; j < comm.local_replicas(); ++j) {
      EXPECT_EQ(parts[i].result(static_cast<std::size_t>(j)), part_for(i, layout.first(comm.rank()) + j))
          << "item " << i << " replica " << j;
    }
  }
}

/// How an all_to_all is asked for.
enum class AllToAllForm { even, even_in_place, uneven };

inline void check_all_to_all(Communicator& comm, AllToAllForm form) {
  const auto tensors = row_list();
  const ReplicaLayout& layout = comm.layout();
  const auto rows = [form](int source, int target, std::size_t i) {
    return form == AllToAllForm::uneven ? some_rows(source, target, i) : std::int64_t{2};
  };
  std::vector<std::int64_t> send_rows;
  std::vector<std::int64_t> receive_rows;
  std::deque<PartItem> parts;
  const int first = layout.first(comm.rank());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PartItem& part = parts.emplace_back(tensors[i]);
    std::vector<std::int64_t> totals;
    for (int local = first; local < layout.first(comm.rank() + 1); ++local) {
      Bytes all;
      std::int64_t sent = 0;
      totals.push_back(0);
      for (int r = 0; r < layout.replicas(); ++r) {
        send_rows.push_back(rows(local, r, i));
        receive_rows.push_back(rows(r, local, i));
        sent += send_rows.back();
        totals.back() += receive_rows.back();
        append(all, part_values(tensors[i], i, local, r, send_rows.back()));
      }
      part.give(sent, all);
    }
    for (std::size_t j = 0; j < totals.size(); ++j) {
      // in place of the next replica's input, which is the harder case
      if (form == AllToAllForm::even_in_place) {
        part.take_in_place_of((j + 1) % totals.size());
      } else {
        part.take(totals[j]);
      }
    }
  }
  if (form == AllToAllForm::uneven) {
    comm.all_to_all_v(items_of(parts), send_rows, receive_rows);
  } else {
    comm.all_to_all(items_of(parts));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (int j = 0; j < comm.local_replicas(); ++j) {
      Bytes expected;
      for (int r = 0; r < layout.replicas(); ++r)
        append(expected, part_values(tensors[i], i, r, first + j, rows(r, first + j, i)));
      EXPECT_EQ(parts[i].result(static_cast<std::size_t>(j)), expected) << "item " << i << " replica " << j;
    }
  }
}

inline void check_every_part_collective(Communicator& comm) {
  for (int root = -1; root < comm.size(); ++root) check_gather_v(comm, root);
  for (int root = 0; root < comm.size(); ++root) {
    check_scatter(comm, root, 3);
    check_scatter(comm, root, 0);
    check_scatter(comm, root, -1);
  }
  for (const AllToAllForm form : {AllToAllForm::even, AllToAllForm::even_in_place, AllToAllForm::uneven})
    check_all_to_all(comm, form);
}

}  // namespace lockstep::test
