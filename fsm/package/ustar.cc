#include "fsm/package/ustar.h"

#include <algorithm>
#include <cstdio>

namespace dfsmr {
namespace {

constexpr uint64_t kTime = 946'684'800;  // 2000-01-01T00:00:00Z
constexpr size_t kName = 100;
constexpr size_t kPrefix = 155;

// The fields of a header, with their places.
struct Place {
  size_t at;
  size_t length;
};
constexpr Place kNameField{0, 100}, kMode{100, 8}, kOwner{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kMtime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kLinkName{157, 100}, kMagic{257, 8},
    kPrefixField{345, 155};

void Put(std::string* block, Place place, std::string_view text) {
  block->replace(place.at, text.size(), text);
}

// Octal digits that fill the field but for the zero byte at its end.
void PutNumber(std::string* block, Place place, uint64_t number) {
  std::string digits(place.length - 1, '0');
  for (size_t i = digits.size(); i-- > 0; number /= 8) {
    digits[i] = static_cast<char>('0' + number % 8);
  }
  Put(block, place, digits);
}

void PutChecksum(std::string* block) {
  Put(block, kChecksum, "        ");
  unsigned sum = 0;
  for (const char c : *block) sum += static_cast<unsigned char>(c);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  Put(block, kChecksum, std::string(digits, 6) + '\0' + ' ');
}

// Cuts a path at a slash, so that both pieces have room. False: there is no such slash.
bool Cut(const std::string& path, std::string* prefix, std::string* name) {
  if (path.size() <= kName) {
    *name = path;
    return true;
  }
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    if (slash > kPrefix) break;
    if (path.size() - slash - 1 > kName) continue;
    *prefix = path.substr(0, slash);
    *name = path.substr(slash + 1);
    return true;
  }
  return false;
}

// The header of what lies under these names.
std::string BlockOf(const std::string& prefix, const std::string& name, uint64_t mode,
                    uint64_t size, const char* type, const std::string& link) {
  std::string block(kTarBlock, '\0');
  Put(&block, kNameField, name);
  PutNumber(&block, kMode, mode);
  PutNumber(&block, kOwner, 0);
  PutNumber(&block, kGroup, 0);
  PutNumber(&block, kSize, size);
  PutNumber(&block, kMtime, kTime);
  Put(&block, kType, type);
  Put(&block, kLinkName, link);
  Put(&block, kMagic,
      std::string_view("ustar\0"
                       "00",
                       8));
  Put(&block, kPrefixField, prefix);
  PutChecksum(&block);
  return block;
}

// A pax record "LENGTH path=PATH\n", whose length counts its own digits.
std::string PathRecord(const std::string& path) {
  const std::string rest = " path=" + path + "\n";
  size_t length = rest.size();
  while (std::to_string(length).size() + rest.size() != length) {
    length = std::to_string(length).size() + rest.size();
  }
  return std::to_string(length) + rest;
}

}  // namespace

std::string FileHeader(const std::string& path, uint64_t size) {
  std::string prefix;
  std::string name;
  if (Cut(path, &prefix, &name)) return BlockOf(prefix, name, 0644, size, "0", "");
  const std::string record = PathRecord(path);
  return BlockOf("", "pax_header", 0644, record.size(), "x", "") + record +
         std::string(UstarPadding(record.size()), '\0') +
         BlockOf("", path.substr(0, kName), 0644, size, "0", "");
}

std::vector<std::string> WriteOrder(const PackageFiles& files) {
  std::vector<std::string> order;
  if (files.contains("package.yaml")) order.emplace_back("package.yaml");
  for (const auto& [path, file] : files) {
    if (path != "package.yaml") order.push_back(path);
  }
  return order;
}

Result<std::string> UstarHeader(std::string_view top, const std::string& path,
                                const PackageFile& file) {
  const std::string whole = std::string(top) + "/" + path;
  std::string prefix;
  std::string name;
  if (file.link.size() > kName) {
    return TooLarge(whole, "the link's target has more than 100 bytes");
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end - begin > kName) return TooLarge(whole, "a part of the path has more than 100 bytes");
    begin = end + 1;
  }
  if (!Cut(whole, &prefix, &name)) {
    return TooLarge(whole,
                    "the path is too long for a ustar, which wants a slash in it with at "
                    "most 155 bytes in front of it and 100 behind");
  }
  const bool link = !file.link.empty();
  return BlockOf(prefix, name,
                 link              ? 0777
                 : file.executable ? 0755
                                   : 0644,
                 link ? 0 : file.size, link ? "2" : "0", file.link);
}

}  // namespace dfsmr
