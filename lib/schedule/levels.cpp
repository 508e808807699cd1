// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/levels.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep::detail {
namespace {

/// The positions where `number_of` changes, and both ends. Empty if a number occurs in two places.
template <class NumberOf>
std::vector<int> runs(std::span<const NodePlace> places, const NumberOf& number_of) {
  std::vector<int> starts{0};
  std::set<std::int32_t> known{number_of(places.front())};
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (number_of(places[rank]) == number_of(places[rank - 1])) continue;
    if (!known.insert(number_of(places[rank])).second) return {};
    starts.push_back(static_cast<int>(rank));
  }
  starts.push_back(static_cast<int>(places.size()));
  return starts;
}

/// Appends the starts of groups of `size` elements of [first, last); a last group of less than half of `size` joins the
/// group before. Groups of a power of two align with the nodes of the canonical tree.
void cut(int first, int last, int size, std::vector<int>& starts) {
  const int count = last - first;
  const int rest = count % size;
  const int groups = std::max(1, count / size + (rest >= size - rest && rest > 0 ? 1 : 0));
  for (int group = 0; group < groups; ++group) starts.push_back(first + group * size);
}

/// The elements of `below` that are also in `above`, as positions in `below`.
std::vector<int> positions(const std::vector<int>& below, const std::vector<int>& above) {
  std::vector<int> result;
  for (const int start : above)
    result.push_back(static_cast<int>(std::lower_bound(below.begin(), below.end(), start) - below.begin()));
  return result;
}

}  // namespace

Levels::Levels(int ranks, std::span<const NodePlace> places)
    : Levels(places.empty() ? std::vector<NodePlace>(static_cast<std::size_t>(ranks))
                            : std::vector<NodePlace>(places.begin(), places.end())) {}

Levels::Levels(std::span<const NodePlace> places) {
  const auto ranks = static_cast<int>(places.size());
  const bool is_one_domain = std::all_of(places.begin(), places.end(), [&](const NodePlace& place) {
    return place == places.front() && place.domain >= 0;
  });
  const std::vector<int> all{0, ranks};
  std::vector<int> single(places.size() + 1);
  std::iota(single.begin(), single.end(), 0);
  starts_ = {single};
  if (ranks > most_neighbours && !(is_one_domain && ranks <= most_in_domain)) {
    const std::vector<int> domains = runs(places, [](const NodePlace& place) { return place.domain; });
    const std::vector<int> sockets = runs(places, [](const NodePlace& place) { return place.socket; });
    if (!domains.empty() && std::includes(domains.begin(), domains.end(), sockets.begin(), sockets.end())) {
      join_all_of(domains);
      join_all_of(sockets);
      join_all_of(all);
    }
    follow_places_ = starts_.size() > 1 && count() <= most_levels;
    if (!follow_places_) starts_ = {single};
    join_all_of(all);
  }
  if (starts_.size() == 1) starts_.push_back(all);
}

/// Adds levels until the groups are those between `bounds`. A group of too many elements is joined in several levels.
void Levels::join_all_of(const std::vector<int>& bounds) {
  while (starts_.back() != bounds) {
    const std::vector<int>& below = starts_.back();
    const std::vector<int> at = positions(below, bounds);
    const int most = starts_.size() == 1 ? most_in_domain : most_neighbours * 3 / 2;
    std::vector<int> groups;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      if (at[i + 1] - at[i] <= most) {
        groups.push_back(at[i]);
      } else {
        cut(at[i], at[i + 1], most_neighbours, groups);
      }
    }
    std::vector<int> above;
    for (const int group : groups) above.push_back(below[static_cast<std::size_t>(group)]);
    above.push_back(below.back());
    starts_.push_back(std::move(above));
  }
}

std::vector<int> Levels::bounds(int level, int rank) const {
  const std::vector<int>& below = starts_[static_cast<std::size_t>(level)];
  const std::vector<int>& above = starts_[static_cast<std::size_t>(level) + 1];
  const auto end = std::upper_bound(above.begin(), above.end() - 1, rank);
  const auto first = std::lower_bound(below.begin(), below.end(), *(end - 1));
  const auto last = std::lower_bound(first, below.end(), *end);
  return {first, last + 1};
}

/// All ranks of a group know the same, so its readers are spread over its ranks.
std::vector<int> Levels::sources(int level, int rank) const {
  const std::vector<int> groups = bounds(level, rank);
  const auto own = std::upper_bound(groups.begin(), groups.end(), rank) - 1;
  std::vector<int> result;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i)
    result.push_back(groups[i] == *own ? rank : groups[i] + (rank - *own) % (groups[i + 1] - groups[i]));
  return result;
}

int Levels::radix(int level) const {
  const std::vector<int>& below = starts_[static_cast<std::size_t>(level)];
  const std::vector<int> at = positions(below, starts_[static_cast<std::size_t>(level) + 1]);
  int most = 0;
  for (std::size_t i = 0; i + 1 < at.size(); ++i) most = std::max(most, at[i + 1] - at[i]);
  return most;
}

std::string Levels::text() const {
  std::string text;
  for (int level = 0; level < count(); ++level) text += (level == 0 ? "" : ".") + std::to_string(radix(level));
  return text;
}

}  // namespace lockstep::detail
