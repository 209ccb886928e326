#include "dsrv/http/pages.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "dsrv/access/credentials.h"
#include "dsrv/http/embedded.h"
#include "dsrv/http/gzip.h"
#include "dsrv/http/url.h"
#include "fsm/base/hex.h"

namespace dfsmr::http {
namespace {

constexpr size_t kMostUnpacked = 64 << 20;

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dfsmr";

constexpr const char* kNoConsole =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>dfsmr</title>\n"
    "<h1>This build of dsrv has no console</h1>\n"
    "<p>It was built without the folder dsrv/console/dist. The calls are all here: see "
    "<a href=\"BASE/openapi.json\">openapi.json</a>. A console of another build serves with "
    "<code>dsrv --console-dir DIR</code>.</p>\n</html>\n";

std::string_view TypeOf(std::string_view name) {
  const std::string_view ending = name.substr(std::min(name.rfind('.'), name.size()));
  if (ending == ".html") return "text/html; charset=utf-8";
  if (ending == ".js") return "text/javascript; charset=utf-8";
  if (ending == ".css") return "text/css; charset=utf-8";
  if (ending == ".svg") return "image/svg+xml";
  if (ending == ".png") return "image/png";
  if (ending == ".ico") return "image/x-icon";
  if (ending == ".json" || ending == ".map") return "application/json";
  return "text/plain; charset=utf-8";
}

// A file of the folder itself, and none elsewhere.
bool IsName(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

std::string UnpackedOr(std::string_view bytes) {
  bool too_large = false;
  return Unpacked(bytes, kMostUnpacked, &too_large).value_or("");
}

void ReplaceAll(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

std::string InAttribute(std::string text) {
  ReplaceAll(&text, "&", "&amp;");
  ReplaceAll(&text, "\"", "&quot;");
  ReplaceAll(&text, "<", "&lt;");
  return text;
}

}  // namespace

Pages::Pages(bool on, std::filesystem::path folder, std::string base, bool asks,
             const std::string& trace_url)
    : on_(on),
      folder_(std::move(folder)),
      base_(std::move(base)),
      asks_(asks),
      trace_url_(InAttribute(trace_url)) {
  if (!on_ || !folder_.empty()) return;
  std::string all;
  for (const auto& [name, bytes] : embedded::Console()) {
    embedded_.push_back({std::string(name), std::string(bytes), true});
    all += bytes;
  }
  embedded_hash_ = ToHex(HashOf(all)).substr(0, 16);
}

std::optional<Pages::File> Pages::Find(std::string_view name) const {
  if (!IsName(name)) return std::nullopt;
  if (folder_.empty()) {
    const auto found = std::ranges::find(embedded_, name, &File::name);
    return found == embedded_.end() ? std::nullopt : std::optional(*found);
  }
  std::ifstream file(folder_ / name, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(folder_ / name)) return std::nullopt;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return File{std::string(name), bytes.str(), false};
}

// Of all files: a page loads the files of one build, or none.
std::string Pages::Hash() const {
  if (folder_.empty()) return embedded_hash_;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  std::string all;
  for (const std::string& name : names) {
    if (const auto file = Find(name)) all += file->bytes;
  }
  return ToHex(HashOf(all)).substr(0, 16);
}

// With the base in front of its links, and the hash behind those to assets.
std::string Pages::Index() const {
  const auto file = Find("index.html");
  if (!file) {
    std::string page = kNoConsole;
    ReplaceAll(&page, "BASE", base_);
    return page;
  }
  const std::string page = file->packed ? UnpackedOr(file->bytes) : file->bytes;
  constexpr std::string_view kAssets = "\"/assets/";
  const std::string hash = "?v=" + Hash();
  std::string out;
  size_t at = 0;
  for (size_t next; (next = page.find(kAssets, at)) != page.npos;) {
    const size_t name = next + 1;
    const size_t end = std::min(page.find_first_of("\"?", name), page.size());
    const size_t quote = std::min(page.find('"', name), page.size());
    out += page.substr(at, name - at) + base_ + page.substr(name, end - name) + hash;
    at = quote;
  }
  out += page.substr(at);
  ReplaceAll(&out, "name=\"dfsmr-base\" content=\"\"",
             "name=\"dfsmr-base\" content=\"" + base_ + "\"");
  if (!asks_) {
    ReplaceAll(&out, "name=\"dfsmr-auth\" content=\"\"", "name=\"dfsmr-auth\" content=\"off\"");
  }
  ReplaceAll(&out, "name=\"dfsmr-trace\" content=\"\"",
             "name=\"dfsmr-trace\" content=\"" + trace_url_ + "\"");
  return out;
}

Response Pages::Reply(const Request& request, const File& file) {
  Response response;
  response.Set("content-type", std::string(TypeOf(file.name)));
  response.Set("vary", "accept-encoding");
  const bool packs = Accepts(request.Header("accept-encoding").value_or(""), "gzip");
  if (packs) response.Set("content-encoding", "gzip");
  response.body = packs == file.packed ? file.bytes
                  : packs              ? Packed(file.bytes)
                                       : UnpackedOr(file.bytes);
  return response;
}

Response Pages::Page(const Request& request) const {
  Response response = Reply(request, {"index.html", Index(), false});
  response.Set("cache-control", "no-store");
  response.Set("cross-origin-opener-policy", "same-origin");
  response.Set("content-security-policy", kPolicy);
  return response;
}

std::optional<Response> Pages::Asset(const Request& request, std::string_view name) const {
  const auto file = Find(name);
  if (!file || name == "index.html") return std::nullopt;
  Response response = Reply(request, *file);
  const auto parameters = ReadQuery(request.query).value_or(Parameters());
  const bool current = std::ranges::any_of(
      parameters, [this](const auto& one) { return one.first == "v" && one.second == Hash(); });
  response.Set("cache-control", current ? "public, max-age=31536000, immutable" : "no-cache");
  return response;
}

}  // namespace dfsmr::http
