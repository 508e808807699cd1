// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/descriptor.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace lockstep::detail {
namespace {

/// A running hash that uses the finaliser of splitmix64: every bit of every word affects every bit of the result.
class Hash {
 public:
  void add(std::uint64_t word) noexcept {
    state_ = (state_ ^ word) + 0x9e3779b97f4a7c15u;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebu;
    state_ ^= state_ >> 31;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x6c6f636b73746570u;
};

/// Copies as much of `text` as fits before a terminating zero.
template <std::size_t n>
void copy_text(std::string_view text, std::array<char, n>& target) {
  std::copy_n(text.begin(), std::min(text.size(), n - 1), target.begin());
}

std::uint32_t checksum_of(const Hash& hash) { return static_cast<std::uint32_t>(hash.value() >> 32); }

/// Makes ranks disagree if their numbers of rows differ.
void add_rows(Descriptor& descriptor, std::span<const std::int64_t> rows) {
  Hash hash;
  Hash of_rows;
  hash.add(descriptor.hash);
  of_rows.add(descriptor.checksum);
  for (const std::int64_t count : rows) {
    hash.add(static_cast<std::uint64_t>(count));
    of_rows.add(static_cast<std::uint64_t>(count));
  }
  descriptor.hash = hash.value();
  descriptor.checksum = checksum_of(of_rows);
  constexpr std::size_t most_shown = Descriptor::rows_bytes / 2;  // each number takes at least one digit and a comma
  copy_text(fmt::format("{}", fmt::join(rows.first(std::min(rows.size(), most_shown)), ",")), descriptor.rows);
}

/// Whether `path` is a file of the library. If the line of a call is in the library, the library made the call for
/// itself, or for a caller whose line it does not know. (Options that are default-constructed have the line of their
/// declaration.)
bool is_in_library(std::string_view path) noexcept {
  constexpr std::string_view this_file = "collectives/call/descriptor.cpp";
  constexpr std::string_view library = std::string_view(__FILE__).substr(0, sizeof(__FILE__) - 1 - this_file.size());
  return path.find("include/lockstep/") != std::string_view::npos || path.starts_with(library);
}

/// The last folder and the name of the file. If this text is too long for a descriptor, its beginning is cut off. Empty
/// for a file of the library.
std::string_view shown_file(const std::source_location& where) noexcept {
  std::string_view path = where.file_name();
  if (is_in_library(path)) return {};
  if (const auto name = path.rfind('/'); name != path.npos && name > 0) {
    if (const auto folder = path.rfind('/', name - 1); folder != path.npos) path.remove_prefix(folder + 1);
  }
  path.remove_prefix(path.size() - std::min(path.size(), Descriptor::file_bytes - 1));
  return path;
}

}  // namespace

Descriptor make_descriptor(const Call& call, Order order, std::span<const HostItem> items, std::string_view name) {
  Descriptor result;
  result.kind = call.kind;
  result.op = call.traits().reduces() ? call.op : ReduceOp::sum;
  result.order = order;
  result.root = call.root;
  result.items = static_cast<std::uint32_t>(items.size());
  copy_text(name, result.name);
  if (!items.empty()) {
    result.dtype = items.front().dtype;
    result.shape_rank = items.front().shape.rank();
    std::copy(items.front().shape.extents().begin(), items.front().shape.extents().end(), result.extents.begin());
  }
  Hash hash;
  hash.add(static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(result.op) << 8 |
           static_cast<std::uint64_t>(order) << 16 |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32);
  hash.add(items.size());
  Hash of_tensors;
  for (const HostItem& item : items) {
    result.elements += item.shape.element_count();
    of_tensors.add(static_cast<std::uint64_t>(item.dtype) | static_cast<std::uint64_t>(item.shape.rank()) << 8);
    for (const std::int64_t extent : item.shape.extents()) of_tensors.add(static_cast<std::uint64_t>(extent));
  }
  hash.add(of_tensors.value());
  result.checksum = checksum_of(of_tensors);
  for (const char each : name) hash.add(static_cast<unsigned char>(each));
  result.hash = hash.value();
  if (call.traits().rows == Rows::agreed) add_rows(result, call.rows);
  return result;
}

void add_gpus(Descriptor& descriptor, std::uint64_t path) {
  Hash hash;
  hash.add(descriptor.hash);
  hash.add(path);
  descriptor.hash = hash.value();
  descriptor.on_gpus = true;
}

void add_schedule(Descriptor& descriptor, std::uint64_t fingerprint, std::string_view requested) {
  Hash hash;
  hash.add(descriptor.hash);
  hash.add(fingerprint);
  descriptor.hash = hash.value();
  copy_text(requested, descriptor.radices);
}

void set_place(Descriptor& descriptor, const std::source_location& where) noexcept {
  const std::string_view file = shown_file(where);
  descriptor.file = {};
  copy_text(file, descriptor.file);
  descriptor.line = file.empty() ? 0 : where.line();
}

std::string describe(const std::source_location& where) {
  const std::string_view file = shown_file(where);
  return file.empty() ? std::string() : fmt::format(" at {}:{}", file, where.line());
}

std::string operation_name(const Descriptor& descriptor) {
  return descriptor.name[0] != '\0' ? std::string(descriptor.name.data()) : std::string(to_string(descriptor.kind));
}

std::string difference_of_merges(int rank, const MergeCount& merges, int other_rank, const MergeCount& other) {
  if (merges.calls == other.calls) return {};
  const auto text = [](const MergeCount& count) {
    if (count.calls == 0) return std::string("none");
    if (count.in_run == count.calls) return fmt::format("{} in run #{}", count.calls, count.run);
    return fmt::format("{}, the last {} of them in run #{}", count.calls, count.in_run, count.run);
  };
  return fmt::format(
      "; the replicas of the ranks made a different number of merge_call calls before it, rank {} {}, rank {} {}; each "
      "rank must make as many, in the same order",
      rank, text(merges), other_rank, text(other));
}

std::string difference_of_positions(int rank, const Descriptor& descriptor, int other_rank, const Descriptor& other) {
  if (descriptor.completed_before == other.completed_before || descriptor.is_recovery || other.is_recovery) return {};
  return fmt::format(
      "; a failure has left the ranks at different operations: rank {} had completed {}, rank {} {}; call "
      "Communicator::recover on every rank, then repeat the calls that not all ranks have completed",
      rank, descriptor.completed_before, other_rank, other.completed_before);
}

std::string difference_of_tensors(const Descriptor& descriptor, const Descriptor& other) {
  const bool is_first_equal = descriptor.items == other.items && descriptor.dtype == other.dtype &&
                              descriptor.shape_rank == other.shape_rank && descriptor.extents == other.extents &&
                              descriptor.rows == other.rows;
  if (descriptor.items < 2 || !is_first_equal || descriptor.checksum == other.checksum) return {};
  return "; the dtypes or shapes of the tensors after the first differ";
}

std::string describe(const Descriptor& descriptor) {
  const Traits& kind = descriptor.traits();
  std::string text(kind.name);
  if (kind.reduces()) text += fmt::format(" {}", to_string(descriptor.op));
  if (descriptor.order == Order::any) text += " in any order";
  if (descriptor.on_gpus) text += " on GPUs";
  if (descriptor.root >= 0) text += fmt::format(" with root {}", descriptor.root);
  const Shape shape(std::span(descriptor.extents).first(static_cast<std::size_t>(descriptor.shape_rank)));
  if (descriptor.items == 1) {
    // if each rank passes its own numbers of rows, the ranks agree only on the shape of a row
    const std::string_view unit = kind.rows == Rows::own ? "rows of " : "";
    text += fmt::format(" of {}{} {}", unit, to_string(descriptor.dtype), lockstep::to_string(shape));
  } else if (kind.pattern != Pattern::barrier) {
    text += fmt::format(" of {} tensors", descriptor.items);
    if (descriptor.items > 1) {
      text += fmt::format(" (first {} {}, {} elements in all, checksum of dtypes and shapes {:08x})",
                          to_string(descriptor.dtype), lockstep::to_string(shape), descriptor.elements,
                          descriptor.checksum);
    }
  }
  if (descriptor.rows[0] != '\0') {
    text += fmt::format(" in rows {}", descriptor.rows.data());
    if (descriptor.rows[Descriptor::rows_bytes - 2] != '\0')
      text += fmt::format("... (checksum {:08x})", descriptor.checksum);
  }
  if (descriptor.radices[0] != '\0') text += fmt::format(" by LOCKSTEP_RADICES={}", descriptor.radices.data());
  if (descriptor.name[0] != '\0') text += fmt::format(" named \"{}\"", descriptor.name.data());
  if (descriptor.line != 0) text += fmt::format(" at {}:{}", descriptor.file.data(), descriptor.line);
  return text;
}

}  // namespace lockstep::detail
