// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/descriptor.hpp"

#include "base/phrases.hpp"

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

/// Divides a list into equal sections, as few entries in each as possible, and adds words to the hash of the section of
/// an entry.
class Sections {
 public:
  explicit Sections(std::size_t entries) : entries_(entries) {}

  void add(std::size_t entry, std::uint64_t word) noexcept { hashes_[entry / size_of_section(entries_)].add(word); }
  void write(Descriptor& descriptor) const noexcept {
    descriptor.listed = static_cast<std::uint32_t>(entries_);
    std::transform(hashes_.begin(), hashes_.end(), descriptor.sections.begin(),
                   [](const Hash& hash) { return static_cast<std::uint32_t>(hash.value() >> 32); });
  }
  [[nodiscard]] static std::size_t size_of_section(std::size_t entries) noexcept {
    return std::max<std::size_t>(1, (entries + Descriptor::most_sections - 1) / Descriptor::most_sections);
  }

 private:
  std::size_t entries_;
  std::array<Hash, Descriptor::most_sections> hashes_;
};

/// Makes ranks disagree if their numbers of rows differ.
void add_rows(Descriptor& descriptor, std::span<const std::int64_t> rows) {
  Hash hash;
  hash.add(descriptor.hash);
  Sections sections(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    hash.add(static_cast<std::uint64_t>(rows[i]));
    sections.add(i, static_cast<std::uint64_t>(rows[i]));
  }
  descriptor.hash = hash.value();
  sections.write(descriptor);
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

void CallerArguments::add(std::string_view arguments) noexcept {
  if (arguments.empty()) return;
  Hash running;
  running.add(hash);
  for (const char each : arguments) running.add(static_cast<unsigned char>(each));
  hash = running.value();
  const std::string_view before(text.data());
  std::size_t end = before.size();
  for (const std::string_view part : {before.empty() ? std::string_view() : std::string_view(", "), arguments}) {
    const std::size_t fits = std::min(part.size(), text.size() - 1 - end);
    std::copy_n(part.begin(), fits, text.begin() + static_cast<std::ptrdiff_t>(end));
    end += fits;
  }
}

Descriptor make_descriptor(const Call& call, Order order, std::span<const HostItem> items, std::string_view name,
                           bool only_name) {
  Descriptor result;
  result.kind = call.kind;
  result.op = call.traits().reduces() ? call.op : ReduceOp::sum;
  result.order = order;
  result.root = call.root;
  result.items = static_cast<std::uint32_t>(items.size());
  copy_text(name, result.name);
  result.only_name = only_name;
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
  Sections sections(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const HostItem& item = items[i];
    const auto add = [&](std::uint64_t word) {
      hash.add(word);
      sections.add(i, word);
    };
    result.elements += item.shape.element_count();
    add(static_cast<std::uint64_t>(item.dtype) | static_cast<std::uint64_t>(item.shape.rank()) << 8);
    for (const std::int64_t extent : item.shape.extents()) add(static_cast<std::uint64_t>(extent));
  }
  sections.write(result);
  for (const char each : name) hash.add(static_cast<unsigned char>(each));
  if (only_name) hash.add(1);
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
    if (count.calls == 0) return std::string("no merge_call call");
    const std::string calls = counted(count.calls, "merge_call call");
    if (count.in_run == count.calls) return fmt::format("{} in run #{}", calls, count.run);
    return fmt::format("{}, the last {} of them in run #{}", calls, count.in_run, count.run);
  };
  return fmt::format(
      "; before it, the replicas of rank {} made {}, and those of rank {} made {}; the replicas of every rank must "
      "make the same number of merge_call calls, in the same order",
      rank, text(merges), other_rank, text(other));
}

std::string difference_of_positions(int rank, const Descriptor& descriptor, int other_rank, const Descriptor& other,
                                    std::string_view advice) {
  if (descriptor.is_recovery != other.is_recovery) return "; if one rank calls recover, all ranks must call it";
  if (descriptor.history == other.history || descriptor.is_recovery) return {};
  if (advice.empty()) {
    advice = "call Communicator::recover on every rank, then repeat the calls that not all ranks have completed";
  }
  if (descriptor.completed_before == other.completed_before) {
    return fmt::format(
        "; failures have left ranks {} and {} at different operations, although both have completed the same number of "
        "operations; {}",
        rank, other_rank, advice);
  }
  return fmt::format("; a failure has left the ranks at different operations: rank {} had completed {}, rank {} {}; {}",
                     rank, descriptor.completed_before, other_rank, other.completed_before, advice);
}

std::string difference_of_lists(const Descriptor& descriptor, const Descriptor& other) {
  const bool has_rows = descriptor.rows[0] != '\0';
  const bool is_shown_equal = has_rows ? descriptor.rows == other.rows
                                       : descriptor.dtype == other.dtype && descriptor.shape_rank == other.shape_rank &&
                                             descriptor.extents == other.extents;
  if (descriptor.kind != other.kind || descriptor.listed != other.listed || !is_shown_equal) return {};
  const auto section = static_cast<std::size_t>(
      std::mismatch(descriptor.sections.begin(), descriptor.sections.end(), other.sections.begin()).first -
      descriptor.sections.begin());
  if (section == Descriptor::most_sections) return {};
  const std::size_t size = Sections::size_of_section(descriptor.listed);
  const std::size_t first = section * size;
  const std::size_t last = std::min<std::size_t>(first + size, descriptor.listed) - 1;
  std::string text("; the first difference is in ");
  if (has_rows) text += first == last ? "the number of rows of " : "the numbers of rows of ";
  text += has_rows ? "replica" : "tensor";
  text += first == last ? fmt::format(" {}", first) : fmt::format("s {} to {}", first, last);
  if (!has_rows) text += " (counted from 0)";
  return text;
}

namespace {

/// " of f32 [3]", " of 4 tensors (...)"
std::string text_of_tensors(const Descriptor& descriptor) {
  const Traits& kind = descriptor.traits();
  if (kind.pattern == Pattern::barrier) return {};
  const Shape shape(std::span(descriptor.extents).first(static_cast<std::size_t>(descriptor.shape_rank)));
  std::string text;
  if (descriptor.items == 1) {
    text = fmt::format(" of {} {}", to_string(descriptor.dtype), lockstep::to_string(shape));
    // if each rank passes its own numbers of rows, the ranks agree only on the shape of a row
    if (kind.rows == Rows::own) {
      text = fmt::format(" of {}", to_string(descriptor.dtype));
      if (shape.rank() > 0) text += fmt::format(" in rows of shape {}", lockstep::to_string(shape));
    }
  } else {
    text = fmt::format(" of {} tensors", descriptor.items);
    if (descriptor.items > 1) {
      text += fmt::format(" (first {} {}, {} elements in all)", to_string(descriptor.dtype), lockstep::to_string(shape),
                          descriptor.elements);
    }
  }
  if (descriptor.rows[0] != '\0') {
    const bool is_cut = descriptor.rows[Descriptor::rows_bytes - 2] != '\0';
    text += fmt::format(" with rows {}{}", descriptor.rows.data(), is_cut ? "..." : "");
  }
  return text;
}

/// " with LOCKSTEP_RADICES=2.2"
std::string text_of_radices(const Descriptor& descriptor) {
  if (descriptor.radices[0] == '\0') return {};
  return fmt::format(" with LOCKSTEP_RADICES={}", descriptor.radices.data());
}

/// Whether the text of the caller's arguments is longer than the descriptor shows.
bool is_cut(const Descriptor& descriptor) { return descriptor.arguments[CallerArguments::most_bytes - 2] != '\0'; }

/// " with axis 0"
std::string text_of_arguments(const Descriptor& descriptor) {
  if (descriptor.arguments[0] == '\0') return {};
  return fmt::format(" with {}{}", descriptor.arguments.data(), is_cut(descriptor) ? "..." : "");
}

/// " at app/train.cpp:42"
std::string text_of_place(const Descriptor& descriptor) {
  return descriptor.line == 0 ? std::string() : fmt::format(" at {}:{}", descriptor.file.data(), descriptor.line);
}

}  // namespace

std::string describe(const Descriptor& descriptor, Details details) {
  if (descriptor.only_name) {
    std::string text(descriptor.name.data());
    if (details.tensors) text += text_of_tensors(descriptor);
    if (details.radices) text += text_of_radices(descriptor);
    return text + text_of_arguments(descriptor) + text_of_place(descriptor);
  }
  const Traits& kind = descriptor.traits();
  std::string text(kind.name);
  if (kind.reduces()) text += fmt::format(" {}", to_string(descriptor.op));
  if (descriptor.on_gpus) text += " on GPUs";
  text += text_of_tensors(descriptor);
  if (descriptor.root >= 0) text += fmt::format(" with root {}", descriptor.root);
  if (descriptor.order == Order::any) text += " with order any";
  if (descriptor.order == Order::canonical && details.order) text += " with order canonical";
  text += text_of_radices(descriptor);
  if (descriptor.name[0] != '\0') text += fmt::format(" named \"{}\"", descriptor.name.data());
  return text + text_of_arguments(descriptor) + text_of_place(descriptor);
}

std::string describe_difference(int rank, const Descriptor& descriptor, int other_rank, const Descriptor& other) {
  const bool is_one_name = descriptor.only_name && other.only_name && descriptor.name == other.name;
  // only such calls have schedules for which the environment requests radices
  const bool is_one_path =
      descriptor.kind == other.kind && descriptor.order == other.order && descriptor.on_gpus == other.on_gpus;
  const bool differ_in_radices = is_one_path && descriptor.radices != other.radices;
  const Details details{.tensors = is_one_name && !differ_in_radices,
                        .radices = is_one_name,
                        .order = descriptor.kind == other.kind && descriptor.order != other.order};
  const auto text = [&](int of, const Descriptor& call) {
    return fmt::format("rank {} {} {}", of, call.only_name ? "is in" : "calls", describe(call, details));
  };
  const bool are_cut = descriptor.arguments == other.arguments && is_cut(descriptor);
  return fmt::format("{}, {}{}{}{}", text(rank, descriptor), text(other_rank, other),
                     difference_of_lists(descriptor, other),
                     are_cut ? "; the arguments may differ after the part that is shown" : "",
                     differ_in_radices ? "; LOCKSTEP_RADICES must be equal on all ranks" : "");
}

}  // namespace lockstep::detail
