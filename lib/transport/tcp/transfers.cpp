// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/transfers.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace lockstep::detail {
namespace {

using State = TcpTransfer::State;

constexpr std::size_t most_closed_groups = 16384;

std::string text_of_sizes(std::size_t sent, std::size_t expected) {
  return fmt::format("it has sent {} bytes where {} were expected", sent, expected);
}

}  // namespace

// ---- groups

void TcpGroups::add(std::uint64_t group, TcpMessage&& message) {
  if (!closed_.contains(group)) messages_[group].push_back(std::move(message));
}

std::optional<TcpMessage> TcpGroups::poll(std::uint64_t group) {
  const auto found = messages_.find(group);
  if (found == messages_.end() || found->second.empty()) return std::nullopt;
  TcpMessage message = std::move(found->second.front());
  found->second.pop_front();
  return message;
}

bool TcpGroups::has_message_of(int peer, std::uint64_t group) const {
  const auto found = messages_.find(group);
  return found != messages_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                 [peer](const TcpMessage& message) { return message.peer == peer; });
}

bool TcpGroups::close(std::uint64_t group) {
  messages_.erase(group);
  first_tags_.erase(group);
  if (!closed_.insert(group).second) return false;
  closed_in_order_.push_back(group);
  if (closed_in_order_.size() > most_closed_groups) {
    closed_.erase(closed_in_order_.front());
    closed_in_order_.pop_front();
  }
  return true;
}

bool TcpGroups::drops(const FrameHeader& header) const {
  if (closed_.contains(header.group)) return true;
  const auto first = first_tags_.find(header.group);
  return first != first_tags_.end() && header.tag < first->second;
}

// ---- calls of this process

void TcpTransfers::begin(TcpTransfer& transfer, bool is_send, std::uint64_t group, std::uint64_t tag, std::byte* data,
                         std::size_t size) const {
  LOCKSTEP_CHECK(transfer.state_ != State::pending);
  transfer.state_ = State::pending;
  transfer.is_send_ = is_send;
  transfer.peer_ = peer_;
  transfer.group_ = group;
  transfer.tag_ = tag;
  transfer.number_ = 0;
  transfer.data_ = data;
  transfer.size_ = size;
  transfer.moved_ = 0;
  transfer.is_eager_ = false;
  transfer.is_by_number_ = false;
}

void TcpTransfers::send(TcpTransfer& transfer, std::uint64_t group, std::uint64_t tag,
                        std::span<const std::byte> data) {
  begin(transfer, true, group, tag, const_cast<std::byte*>(data.data()), data.size());  // only read
  if (has_failed_) {
    transfer.state_ = State::failed;
    return;
  }
  transfer.number_ = ++last_number_;
  const bool is_eager = data.size() <= eager_bytes && eager_in_use_ + data.size() <= eager_window;
  FrameHeader header{.group = group, .tag = tag, .number = transfer.number_, .size = data.size()};
  header.kind = is_eager ? FrameKind::eager : FrameKind::request;
  header.bytes = is_eager ? static_cast<std::uint32_t>(data.size()) : 0;
  transfer.is_eager_ = is_eager;
  sends_.emplace(transfer.number_, &transfer);
  if (is_eager) eager_in_use_ += data.size();
  connections_.push(TcpLine::small, {header, data.data(), is_eager ? &transfer : nullptr});
}

void TcpTransfers::receive(TcpTransfer& transfer, std::uint64_t group, std::uint64_t tag, std::span<std::byte> data) {
  begin(transfer, false, group, tag, data.data(), data.size());
  const auto found = early_.find({group, tag});
  if (found != early_.end()) {
    const auto next = std::find_if(found->second.begin(), found->second.end(),
                                   [](const EarlyTransfer& early) { return early.receiver == nullptr; });
    if (next != found->second.end()) return take_early(found, next, transfer);
  }
  if (has_failed_) {
    transfer.state_ = State::failed;
    return;
  }
  posted_[{group, tag}].push_back(&transfer);
}

void TcpTransfers::send_by_number(TcpTransfer& transfer, std::uint64_t group, std::uint64_t number,
                                  std::span<const std::byte> data) {
  begin(transfer, true, group, number, const_cast<std::byte*>(data.data()), data.size());  // only read
  transfer.is_by_number_ = true;
  if (has_failed_) {
    transfer.state_ = State::failed;
    return;
  }
  transfer.number_ = ++last_number_;
  sends_.emplace(transfer.number_, &transfer);
  const bool is_small = data.size() <= eager_bytes && connections_.channel(TcpLine::small).has_left();
  connections_.push(is_small ? TcpLine::small : TcpLine::bulk, next_part(transfer));
}

void TcpTransfers::receive_by_number(TcpTransfer& transfer, std::uint64_t group, std::uint64_t number,
                                     std::span<std::byte> data) {
  begin(transfer, false, group, number, data.data(), data.size());
  transfer.is_by_number_ = true;
  if (has_failed_) {
    transfer.state_ = State::failed;
    return;
  }
  incoming_[incoming_key(transfer)] = &transfer;
}

void TcpTransfers::cancel(TcpTransfer& transfer) {
  transfer.state_ = State::idle;
  if (transfer.is_send_) {
    sends_.erase(transfer.number_);
    const bool has_not_begun = connections_.channel(TcpLine::small).disown(&transfer);
    static_cast<void>(connections_.channel(TcpLine::bulk).disown(&transfer));
    if (has_not_begun && transfer.is_eager_) eager_in_use_ -= std::min(eager_in_use_, transfer.size_);
    if (!transfer.is_eager_ && !transfer.is_by_number_)
      connections_.push(TcpLine::small, {{.kind = FrameKind::withdrawal, .number = transfer.number_}});
    return;
  }
  const auto posted = posted_.find({transfer.group_, transfer.tag_});
  if (posted != posted_.end()) {
    std::erase(posted->second, &transfer);
    if (posted->second.empty()) posted_.erase(posted);
  }
  if (transfer.number_ != 0 || transfer.is_by_number_) incoming_.erase(incoming_key(transfer));
  withdrawn_.erase(&transfer);
  for (const TcpLine line : tcp_lines) stop_storing(line, transfer);
  for (auto& [key, list] : early_) {
    for (EarlyTransfer& early : list) {
      if (early.receiver == &transfer) early.receiver = nullptr;
    }
  }
}

/// The rest of a frame that comes now for `transfer` is dropped.
void TcpTransfers::stop_storing(TcpLine line, const TcpTransfer& transfer) noexcept {
  Incoming& coming = coming_over(line);
  if (coming.receiving != &transfer) return;
  connections_.channel(line).stop_storing_at(transfer.data_, transfer.data_ + transfer.size_);
  coming.receiving = nullptr;
}

void TcpTransfers::forget_dropped() {
  std::size_t bytes = 0;
  for (auto list = early_.begin(); list != early_.end();) {
    if (list->second.empty() || !groups_.drops(list->second.front().header)) {
      ++list;
      continue;
    }
    // the payload of the last one may be coming
    for (const TcpLine line : tcp_lines) {
      if (coming_over(line).early_list != &list->second) continue;
      const std::vector<std::byte>& last = list->second.back().bytes;
      connections_.channel(line).stop_storing_at(last.data(), last.data() + last.size());
      coming_over(line).early_list = nullptr;
    }
    for (const EarlyTransfer& early : list->second) bytes += early.is_whole ? early.bytes.size() : 0;
    list = early_.erase(list);
  }
  if (bytes > 0) count_taken(bytes);
}

// ---- what comes

std::byte* TcpTransfers::begin_frame(TcpLine line, const FrameHeader& header, std::string& fault) {
  Incoming& coming = coming_over(line);
  coming.receiving = nullptr;
  coming.early_list = nullptr;
  switch (header.kind) {
    case FrameKind::message: coming.message.resize(header.bytes); return coming.message.data();
    case FrameKind::eager: return begin_eager(coming, header, fault);
    case FrameKind::data: return begin_data(coming, header, fault);
    default: return nullptr;
  }
}

std::byte* TcpTransfers::begin_data(Incoming& coming, const FrameHeader& header, std::string& fault) {
  const auto found = incoming_.find({header.group, header.number});
  if (found == incoming_.end()) return nullptr;
  TcpTransfer& transfer = *found->second;
  if (header.size != transfer.moved_ || header.bytes > transfer.size_ - transfer.moved_) {
    fault = "it has sent data beyond the end of a transfer";
    return nullptr;
  }
  coming.receiving = &transfer;
  return transfer.data_ + transfer.moved_;
}

std::byte* TcpTransfers::begin_eager(Incoming& coming, const FrameHeader& header, std::string& fault) {
  if (groups_.drops(header)) return nullptr;
  if (TcpTransfer* const transfer = take_posted(header, fault)) {
    coming.receiving = transfer;
    return transfer->data_;
  }
  if (!fault.empty()) return nullptr;
  EarlyTransfers& list = early_[{header.group, header.tag}];
  list.push_back({header, std::vector<std::byte>(header.bytes)});
  coming.early_list = &list;
  return list.back().bytes.data();
}

void TcpTransfers::end_frame(TcpLine line, const FrameHeader& header, std::string& fault) {
  Incoming& coming = coming_over(line);
  switch (header.kind) {
    case FrameKind::message: groups_.add(header.group, {peer_, std::exchange(coming.message, {})}); break;
    case FrameKind::eager: end_eager(coming, header); break;
    case FrameKind::request: end_request(header, fault); break;
    case FrameKind::grant: {
      const auto found = sends_.find(header.number);  // else it was cancelled
      if (found != sends_.end()) connections_.push(TcpLine::bulk, next_part(*found->second));
      break;
    }
    case FrameKind::data: end_data(coming, header); break;
    case FrameKind::withdrawal: end_withdrawal(header.number); break;
    case FrameKind::credit: eager_in_use_ -= std::min<std::size_t>(eager_in_use_, header.size); break;
    case FrameKind::farewell: break;
  }
  coming.receiving = nullptr;
}

void TcpTransfers::end_eager(const Incoming& coming, const FrameHeader& header) {
  if (coming.early_list != nullptr) {
    EarlyTransfer& early = coming.early_list->back();
    early.is_whole = true;
    if (early.receiver == nullptr) return;
    deliver(early, *early.receiver);
    coming.early_list->pop_back();
    if (coming.early_list->empty()) early_.erase({header.group, header.tag});
  } else if (coming.receiving != nullptr) {
    coming.receiving->moved_ = coming.receiving->size_;
    coming.receiving->state_ = State::done;
  }
  count_taken(header.bytes);
}

void TcpTransfers::end_data(const Incoming& coming, const FrameHeader& header) {
  if (coming.receiving == nullptr) return;
  TcpTransfer& transfer = *coming.receiving;
  transfer.moved_ += header.bytes;
  if (transfer.moved_ < transfer.size_) return;
  incoming_.erase({header.group, header.number});
  transfer.state_ = State::done;
}

void TcpTransfers::end_request(const FrameHeader& header, std::string& fault) {
  if (groups_.drops(header)) return;
  if (TcpTransfer* const transfer = take_posted(header, fault)) {
    grant(header.number, *transfer);
  } else if (fault.empty()) {
    early_[{header.group, header.tag}].push_back({header, {}, true});
  }
}

void TcpTransfers::end_withdrawal(std::uint64_t number) {
  for (auto list = early_.begin(); list != early_.end(); ++list) {
    const auto found = std::find_if(list->second.begin(), list->second.end(), [number](const EarlyTransfer& early) {
      return early.header.kind == FrameKind::request && early.header.number == number;
    });
    if (found == list->second.end()) continue;
    list->second.erase(found);
    if (list->second.empty()) early_.erase(list);
    return;
  }
  const auto incoming = incoming_.find({0, number});
  if (incoming == incoming_.end()) return;
  // it stays pending: the other side says elsewhere why
  TcpTransfer* const transfer = incoming->second;
  stop_storing(TcpLine::bulk, *transfer);
  incoming_.erase(incoming);
  withdrawn_.insert(transfer);
}

/// The receiver of the next transfer with the group and tag of `header`; null if there is none yet.
TcpTransfer* TcpTransfers::take_posted(const FrameHeader& header, std::string& fault) {
  const auto found = posted_.find({header.group, header.tag});
  if (found == posted_.end()) return nullptr;
  TcpTransfer* const transfer = found->second.front();
  if (transfer->size_ != header.size || (header.kind == FrameKind::eager && header.bytes != header.size)) {
    fault = text_of_sizes(header.size, transfer->size_);
    return nullptr;
  }
  found->second.pop_front();
  if (found->second.empty()) posted_.erase(found);
  return transfer;
}

void TcpTransfers::take_early(std::map<Key, EarlyTransfers>::iterator list, EarlyTransfers::iterator early,
                              TcpTransfer& transfer) {
  const FrameHeader header = early->header;
  const bool is_right = header.size == transfer.size_;
  if (is_right && !early->is_whole) {
    early->receiver = &transfer;
    return;
  }
  const bool is_announced = header.kind == FrameKind::request;
  if (is_right && !is_announced) deliver(*early, transfer);
  // erased first: what follows may end the connections, which changes the lists
  if (early->is_whole) list->second.erase(early);
  if (list->second.empty()) early_.erase(list);
  if (!is_right) {
    transfer.state_ = State::failed;
    connections_.lose(text_of_sizes(header.size, transfer.size_));
  } else if (!is_announced) {
    count_taken(header.bytes);
  } else if (connections_.are_ending()) {
    transfer.state_ = State::failed;
  } else {
    grant(header.number, transfer);
  }
}

void TcpTransfers::deliver(const EarlyTransfer& early, TcpTransfer& transfer) {
  if (!early.bytes.empty()) std::memcpy(transfer.data_, early.bytes.data(), early.bytes.size());
  transfer.moved_ = transfer.size_;
  transfer.state_ = State::done;
}

void TcpTransfers::grant(std::uint64_t number, TcpTransfer& transfer) {
  transfer.number_ = number;
  try {
    incoming_[incoming_key(transfer)] = &transfer;
  } catch (const std::bad_alloc&) {  // it is in no list any more, and the connection ends
    transfer.state_ = State::failed;
    throw;
  }
  connections_.push(TcpLine::small, {{.kind = FrameKind::grant, .number = number}});
}

/// Tells the other process, some times, that it may send more.
void TcpTransfers::count_taken(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ < eager_window / 4 || has_failed_) return;
  connections_.push(TcpLine::small, {{.kind = FrameKind::credit, .size = std::exchange(taken_, 0)}});
}

// ---- what leaves

/// Group and number of transfers by number; 0 and the sender's number of others, which were granted.
TcpTransfers::Key TcpTransfers::incoming_key(const TcpTransfer& transfer) noexcept {
  return transfer.is_by_number_ ? Key{transfer.group_, transfer.tag_} : Key{0, transfer.number_};
}

OutgoingFrame TcpTransfers::next_part(const TcpTransfer& transfer) {
  const std::size_t bytes = std::min(part_bytes, transfer.size_ - transfer.moved_);
  const Key key = incoming_key(transfer);
  return {{.kind = FrameKind::data,
           .bytes = static_cast<std::uint32_t>(bytes),
           .group = key.first,
           .number = key.second,
           .size = transfer.moved_},
          transfer.data_ + transfer.moved_,
          &transfer};
}

/// Called while the channel sends, which goes on with what is pushed here.
void TcpTransfers::frame_has_left(TcpLine line, const OutgoingFrame& frame) {
  auto& transfer = *static_cast<TcpTransfer*>(const_cast<void*>(frame.owner));  // the owner of a frame is a transfer
  transfer.moved_ += frame.header.bytes;
  if (transfer.moved_ < transfer.size_) return connections_.channel(line).push(next_part(transfer));
  sends_.erase(transfer.number_);
  transfer.state_ = State::done;
}

// ---- the end

void TcpTransfers::line_has_ended(TcpLine line) noexcept {
  Incoming& coming = coming_over(line);
  // what was announced is in `incoming_`, and fails with the other connection; an eager one is in no list any more
  TcpTransfer* const transfer = std::exchange(coming.receiving, nullptr);
  if (transfer != nullptr && transfer->number_ == 0 && !transfer->is_by_number_) transfer->state_ = State::failed;
  coming.early_list = nullptr;
}

void TcpTransfers::fail_all() noexcept {
  has_failed_ = true;
  for (const TcpLine line : tcp_lines) line_has_ended(line);
  for (const auto& [number, transfer] : sends_) transfer->state_ = State::failed;
  for (const auto& [number, transfer] : incoming_) transfer->state_ = State::failed;
  for (TcpTransfer* const transfer : withdrawn_) transfer->state_ = State::failed;
  for (const auto& [key, list] : posted_) {
    for (TcpTransfer* const transfer : list) transfer->state_ = State::failed;
  }
  sends_.clear();
  incoming_.clear();
  withdrawn_.clear();
  posted_.clear();
  // what has come as a whole can still be received
  for (auto list = early_.begin(); list != early_.end();) {
    for (const EarlyTransfer& early : list->second) {
      if (early.receiver != nullptr) early.receiver->state_ = State::failed;
    }
    list->second.remove_if([](const EarlyTransfer& early) {
      return !early.is_whole || early.header.kind == FrameKind::request || early.receiver != nullptr;
    });
    list = list->second.empty() ? early_.erase(list) : std::next(list);
  }
}

}  // namespace lockstep::detail
