// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// AES-128-GCM of OpenSSL's libcrypto, which is opened when it is first needed.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// Encrypts or decrypts the records of one direction of a connection. Not thread-safe.
class AesGcm {
 public:
  static constexpr std::size_t key_bytes = 16;
  static constexpr std::size_t tag_bytes = 16;
  enum class Use : std::uint8_t { seal, open };

  /// Throws Error(unavailable), with the reason, if libcrypto cannot be opened. Thread-safe.
  static void require();

  /// Throws as `require`, and Error(unavailable) if libcrypto refuses the key.
  AesGcm(Use use, std::span<const std::byte, key_bytes> key);
  AesGcm(const AesGcm&) = delete;
  AesGcm& operator=(const AesGcm&) = delete;
  ~AesGcm();

  /// Encrypts `data` in place. `number` is used once with a key; `clear` is authenticated, too, but not encrypted.
  /// Returns whether libcrypto could.
  [[nodiscard]] bool seal(std::uint64_t number, std::span<const std::byte> clear, std::span<std::byte> data,
                          std::array<std::byte, tag_bytes>& tag);
  /// Decrypts `data` in place. Returns false if anything is not as it was sealed: then `data` must not be used.
  [[nodiscard]] bool open(std::uint64_t number, std::span<const std::byte> clear, std::span<std::byte> data,
                          const std::array<std::byte, tag_bytes>& tag);

 private:
  void* context_ = nullptr;  // an EVP_CIPHER_CTX
};

}  // namespace lockstep::detail
