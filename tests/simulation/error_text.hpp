// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the texts of errors say: which ranks, operations and messages they name.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::simulation {

[[nodiscard]] bool contains(const std::vector<int>& ranks, int rank);

/// The ranks that the text blames: those it waited for, those that have left, and those whose calls it compares.
[[nodiscard]] std::vector<int> blamed(const std::string& text);

/// The text without what only one rank can know: how far its own data had come, where it saw other ranks wait, and
/// whether it has seen the end of a process or of the connection to it. Of
/// the error of a message, also without its ends; of a lack of memory, without the place, since both ends of a message
/// may tell it.
[[nodiscard]] std::string common_part(const std::string& text);

/// The error that a rank has told others by `abort`, or `text`.
[[nodiscard]] std::string told(const std::string& text);

/// "operation #4 of communicator": the operation that an error names; empty if it names none.
[[nodiscard]] std::string operation_in(const std::string& text);
/// " of communicator", from such an operation.
[[nodiscard]] std::string communicator_of(const std::string& operation);

/// What the text says of the operation in which the rank waits; empty if it says nothing.
[[nodiscard]] std::string wait_of(const std::string& text, int rank);
/// The ranks for which a rank waits according to `wait_of`; both ends of a message.
[[nodiscard]] std::vector<int> awaited_in(const std::string& wait);

/// The message of which the text is an error.
struct Message {
  std::string name;  ///< "#0 of communicator from rank 1 to rank 2", on both ends
  int other = -1;  ///< the rank that the error may name: the receiver if a send failed, the sender if a receive failed
  bool has_mismatch = false;  ///< the text compares both calls, and is the same on both ends
};
/// None if the text is not the error of a send or receive.
[[nodiscard]] std::optional<Message> message_in(std::string_view text);

}  // namespace lockstep::simulation
