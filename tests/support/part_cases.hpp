// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives that move a different part to every replica, for any transport. Every rank of `comm` calls each case; the
// tensors of a local replica are on the device that `device_of` gives for it. Each element is compared with the input
// of its pair of replicas.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/canonical_sum.hpp"
#include "support/placed_bytes.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace lockstep::test {

/// A tensor whose parts consist of rows of one shape.
struct RowCase {
  DType dtype = DType::f32;
  Shape row;
};
inline std::vector<RowCase> row_list() {
  return {{DType::f32, {}}, {DType::bf16, {33}}, {DType::f64, {5, 7}}, {DType::i64, {0}}, {DType::u8, {4099}}};
}

/// Uneven numbers of rows, sometimes zero.
inline std::int64_t some_rows(int source, int target, std::size_t item) {
  return (3 * source + 5 * target + static_cast<int>(item)) % 4;
}

/// The part that `source` sends to `target`.
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

  void give(std::int64_t rows, const Bytes& values, Device device = {}) {
    inputs_.emplace_back(memory_.emplace_back(values, device).data(), tensor_.dtype, shape(rows), device);
  }
  /// Adds an output, filled with a pattern that does not occur in results.
  void take(std::int64_t rows, Device device = {}) {
    const auto elements = static_cast<std::size_t>(shape(rows).element_count());
    const Bytes pattern(elements * size_of(tensor_.dtype), std::byte{0xa5});
    outputs_.push_back({memory_.emplace_back(pattern, device).data(), tensor_.dtype, shape(rows), device});
  }
  void take_in_place_of(std::size_t input) {
    outputs_.push_back({memory_[input].data(), tensor_.dtype, inputs_[input].shape, inputs_[input].device});
  }

  [[nodiscard]] Item item() const { return {inputs_, outputs_}; }
  [[nodiscard]] Bytes result(std::size_t output) const { return read(outputs_[output]); }

 private:
  [[nodiscard]] Shape shape(std::int64_t rows) const {
    std::vector<std::int64_t> extents{rows};
    extents.insert(extents.end(), tensor_.row.extents().begin(), tensor_.row.extents().end());
    return Shape(extents);
  }

  RowCase tensor_;
  std::deque<PlacedBytes> memory_;  // inputs first
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

inline std::vector<Item> items_of(const std::deque<PartItem>& parts) {
  std::vector<Item> items;
  for (const PartItem& part : parts) items.push_back(part.item());
  return items;
}

/// Every rank; the first and the last one in lanes with sanitizers.
inline std::vector<int> some_roots(const Communicator& comm) {
  std::vector<int> roots;
  for (int root = 0; root < comm.size(); root += is_quick() ? std::max(comm.size() - 1, 1) : 1) roots.push_back(root);
  return roots;
}

/// all_gather_v, or gather_v to `root`. The input of a replica is its part for replica 0.
inline void check_gather_v(Communicator& comm, int root, const DeviceOf& device_of = on_host,
                           const std::vector<RowCase>& tensors = row_list()) {
  const ReplicaLayout& layout = comm.layout();
  std::deque<PartItem> parts;
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PartItem& part = parts.emplace_back(tensors[i]);
    std::int64_t total = 0;
    for (int r = 0; r < layout.replicas(); ++r) {
      rows.push_back(some_rows(r, 0, i));
      total += rows.back();
      if (layout.rank_of(r) != comm.rank()) continue;
      part.give(rows.back(), part_values(tensors[i], i, r, 0, rows.back()), device_of(r - layout.first(comm.rank())));
    }
    if (root >= 0 && root != comm.rank()) continue;
    for (const int replica : {0, comm.local_replicas() - 1}) part.take(total, device_of(replica));
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

/// scatter of `rows_each` rows to every replica; with -1 scatter_v of uneven numbers of rows, equal for all items.
inline void check_scatter(Communicator& comm, int root, std::int64_t rows_each, const DeviceOf& device_of = on_host,
                          const std::vector<RowCase>& tensors = row_list()) {
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
      part.give(total, all, device_of(comm.local_replicas() - 1));
    }
    for (int j = 0; j < comm.local_replicas(); ++j)
      part.take(rows[static_cast<std::size_t>(layout.first(comm.rank()) + j)], device_of(j));
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

/// Variant of an all_to_all call.
enum class AllToAllForm { even, even_in_place, uneven };

inline void check_all_to_all(Communicator& comm, AllToAllForm form, const DeviceOf& device_of = on_host,
                             const std::vector<RowCase>& tensors = row_list()) {
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
      part.give(sent, all, device_of(local - first));
    }
    for (int j = 0; j < comm.local_replicas(); ++j) {
      // in place of the input of the next replica of its device, which is the harder case
      int next = j;
      do next = (next + 1) % comm.local_replicas();
      while (device_of(next) != device_of(j));
      if (form == AllToAllForm::even_in_place) {
        part.take_in_place_of(static_cast<std::size_t>(next));
      } else {
        part.take(totals[static_cast<std::size_t>(j)], device_of(j));
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

/// all_to_all_v of one row of 3 elements for every pair of replicas, except from replica 2 to replica 0: there `sent`
/// rows are sent and `expected` rows are expected.
inline void exchange_rows(Communicator& comm, DType dtype, std::int64_t sent, std::int64_t expected,
                          const DeviceOf& device_of = on_host, const ReduceOptions& options = {}) {
  const int replicas = comm.layout().replicas();
  const int first = comm.layout().first(comm.rank());
  std::vector<std::int64_t> send_rows;
  std::vector<std::int64_t> receive_rows;
  std::deque<PartItem> parts;
  parts.emplace_back(RowCase{dtype, {3}});
  for (int local = first; local < first + comm.local_replicas(); ++local) {
    std::int64_t total_sent = 0;
    for (int other = 0; other < replicas; ++other) {
      send_rows.push_back(local == 2 && other == 0 ? sent : 1);
      total_sent += send_rows.back();
    }
    parts.front().give(total_sent, Bytes(static_cast<std::size_t>(total_sent) * 3 * size_of(dtype)),
                       device_of(local - first));
  }
  for (int local = first; local < first + comm.local_replicas(); ++local) {
    std::int64_t total_received = 0;
    for (int other = 0; other < replicas; ++other) {
      receive_rows.push_back(local == 0 && other == 2 ? expected : 1);
      total_received += receive_rows.back();
    }
    parts.front().take(total_received, device_of(local - first));
  }
  comm.all_to_all_v(items_of(parts), send_rows, receive_rows, options);
}

inline void check_every_part_collective(Communicator& comm, const DeviceOf& device_of = on_host) {
  check_gather_v(comm, -1, device_of);
  for (const int root : some_roots(comm)) {
    check_gather_v(comm, root, device_of);
    check_scatter(comm, root, 3, device_of);
    check_scatter(comm, root, 0, device_of);
    check_scatter(comm, root, -1, device_of);
  }
  for (const AllToAllForm form : {AllToAllForm::even, AllToAllForm::even_in_place, AllToAllForm::uneven})
    check_all_to_all(comm, form, device_of);
}

}  // namespace lockstep::test
