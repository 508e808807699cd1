// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/openssl/aes_gcm.hpp"

#include "base/check.hpp"

#include <dlfcn.h>

#include <string>

namespace lockstep::detail {
namespace {

// of openssl/evp.h, the same in OpenSSL 1.1 and 3
constexpr int ctrl_get_tag = 0x10;
constexpr int ctrl_set_tag = 0x11;
constexpr std::size_t nonce_bytes = 12;

using Context = void;
struct Functions {
  Context* (*new_context)() = nullptr;
  void (*free_context)(Context*) = nullptr;
  const void* (*aes_128_gcm)() = nullptr;
  int (*init)(Context*, const void*, void*, const unsigned char*, const unsigned char*, int) = nullptr;
  int (*update)(Context*, unsigned char*, int*, const unsigned char*, int) = nullptr;
  int (*final)(Context*, unsigned char*, int*) = nullptr;
  int (*ctrl)(Context*, int, int, void*) = nullptr;
};

struct Library {
  Functions functions;
  std::string why_not;  // empty: it is open
};

template <class Function>
bool find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  return function != nullptr;
}

Library open_library() {
  Library library;
  void* handle = nullptr;
  for (const char* const name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
    handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    if (library.why_not.empty()) library.why_not = ::dlerror();
  }
  if (handle == nullptr) return library;
  library.why_not.clear();
  Functions& functions = library.functions;
  const bool has_all =
      find(handle, "EVP_CIPHER_CTX_new", functions.new_context) &&
      find(handle, "EVP_CIPHER_CTX_free", functions.free_context) &&
      find(handle, "EVP_aes_128_gcm", functions.aes_128_gcm) && find(handle, "EVP_CipherInit_ex", functions.init) &&
      find(handle, "EVP_CipherUpdate", functions.update) && find(handle, "EVP_CipherFinal_ex", functions.final) &&
      find(handle, "EVP_CIPHER_CTX_ctrl", functions.ctrl);
  if (!has_all) library.why_not = "it lacks a function of AES-GCM";
  return library;
}

const Library& library_of_process() {
  static const Library library = open_library();
  return library;
}

const Functions& functions() { return library_of_process().functions; }

unsigned char* bytes_of(std::byte* data) noexcept { return reinterpret_cast<unsigned char*>(data); }
const unsigned char* bytes_of(const std::byte* data) noexcept { return reinterpret_cast<const unsigned char*>(data); }

/// Begins the record `number`, and passes `clear` and `data` through the cipher.
bool pass(void* context, std::uint64_t number, std::span<const std::byte> clear, std::span<std::byte> data) {
  std::array<unsigned char, nonce_bytes> nonce{};
  for (std::size_t i = 0; i < sizeof(number); ++i)
    nonce[nonce_bytes - 1 - i] = static_cast<unsigned char>(number >> (8 * i));
  int count = 0;
  return functions().init(context, nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         (clear.empty() ||
          functions().update(context, nullptr, &count, bytes_of(clear.data()), static_cast<int>(clear.size())) == 1) &&
         functions().update(context, bytes_of(data.data()), &count, bytes_of(data.data()),
                            static_cast<int>(data.size())) == 1;
}

}  // namespace

void AesGcm::require() {
  const std::string& why_not = library_of_process().why_not;
  if (!why_not.empty()) throw_error(Code::unavailable, "no encryption without OpenSSL's libcrypto: {}", why_not);
}

AesGcm::AesGcm(Use use, std::span<const std::byte, key_bytes> key) {
  require();
  context_ = functions().new_context();
  const bool has_key =
      context_ != nullptr && functions().init(context_, functions().aes_128_gcm(), nullptr, bytes_of(key.data()),
                                              nullptr, use == Use::seal ? 1 : 0) == 1;
  if (has_key) return;
  if (context_ != nullptr) functions().free_context(context_);
  throw_error(Code::unavailable, "OpenSSL's libcrypto refuses AES-128-GCM");
}

AesGcm::~AesGcm() { functions().free_context(context_); }

bool AesGcm::seal(std::uint64_t number, std::span<const std::byte> clear, std::span<std::byte> data,
                  std::array<std::byte, tag_bytes>& tag) {
  int count = 0;
  std::array<unsigned char, tag_bytes> rest;  // GCM leaves none
  return pass(context_, number, clear, data) && functions().final(context_, rest.data(), &count) == 1 &&
         functions().ctrl(context_, ctrl_get_tag, static_cast<int>(tag.size()), tag.data()) == 1;
}

bool AesGcm::open(std::uint64_t number, std::span<const std::byte> clear, std::span<std::byte> data,
                  const std::array<std::byte, tag_bytes>& tag) {
  int count = 0;
  std::array<unsigned char, tag_bytes> rest;
  std::array<std::byte, tag_bytes> expected = tag;
  return pass(context_, number, clear, data) &&
         functions().ctrl(context_, ctrl_set_tag, static_cast<int>(expected.size()), expected.data()) == 1 &&
         functions().final(context_, rest.data(), &count) == 1;
}

}  // namespace lockstep::detail
