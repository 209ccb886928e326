// The console: index.html for every page, and its assets, from the program or from a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/http/message.h"

namespace dfsmr::http {

class Pages {
 public:
  // `folder` empty: what the build has embedded. `base` stands in front of all links: "" or
  // "/PATH". `asks`: calls for tokens; else the page says so, and need not ask who it is. `trace_url`:
  // where people see a trace, with {trace_id} in it, for links; empty: nowhere.
  Pages(bool on, std::filesystem::path folder, std::string base, bool asks,
        const std::string& trace_url);

  bool on() const { return on_; }
  // Of a build without a console one that says so.
  Response Page(const Request& request) const;
  // nullopt: there is no such asset.
  std::optional<Response> Asset(const Request& request, std::string_view name) const;

 private:
  struct File {
    std::string name;
    std::string bytes;
    bool packed = false;  // by gzip
  };
  std::optional<File> Find(std::string_view name) const;
  std::string Hash() const;
  std::string Index() const;
  static Response Reply(const Request& request, const File& file);

  const bool on_;
  const std::filesystem::path folder_;
  const std::string base_;
  const bool asks_;
  const std::string trace_url_;  // as it stands in an attribute of HTML
  std::vector<File> embedded_;
  std::string embedded_hash_;
};

}  // namespace dfsmr::http
