// `console`: the address of the console's pages, with what signs a person in where that is asked
// for.
#include <cstdlib>

#include "dcli/call/views.h"
#include "dcli/commands/views.h"
#include "dcli/text/json.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace console_command {

constexpr std::string_view kMachine = "machine/";

// For one part of a path: all but RFC 3986's unreserved characters.
std::string Percent(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += "0123456789ABCDEF"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789ABCDEF"[c & 15];
    }
  }
  return out;
}

// Without a slash at its end.
Result<std::string> BaseOf(const Context& context, std::string http) {
  const char* told = std::getenv("DFSMR_HTTP");
  if (http.empty() && told != nullptr) http = told;
  if (http.empty()) {
    const std::string all = context.client->server();
    const std::string address = ServerAddress(all.substr(0, all.find(',')));
    const size_t colon = address.rfind(':');
    if (address.substr(colon) != ":3004") {
      return BadUsage("the console of a server at " + address +
                      " may be anywhere: --http URL, or DFSMR_HTTP, says where, as http= in the "
                      "first line of its log");
    }
    return (context.client->tls() ? "https://" : "http://") + address.substr(0, colon) + ":3005";
  }
  if (!http.starts_with("http://") && !http.starts_with("https://")) {
    return BadUsage("--http " + http + " is not a URL such as http://localhost:3005");
  }
  while (http.ends_with('/')) http.pop_back();
  return http;
}

std::string PathOf(const Context& context, const std::string& subject) {
  if (subject.empty() && context.name_space.empty()) return "/";
  const std::string ns = context.name_space.empty() ? "default" : context.name_space;
  std::string path = "/n/" + Percent(ns);
  if (subject.starts_with(kMachine) && subject.size() > kMachine.size()) {
    path += "/machines/" + Percent(std::string_view(subject).substr(kMachine.size()));
  } else if (!subject.empty()) {
    path += "/instances/" + Percent(subject);
  }
  return path;
}

// "" where nobody is asked for a token.
Result<std::string> CodeOf(Context& context) {
  v1::CreateSessionRequest request;
  request.set_code(true);
  const auto code = context.client->CreateSession(request);
  if (code) return code->secret();
  if (Unreached(code.error())) return code.error();
  v1::GetOverviewRequest open;
  open.set_namespace_(context.name_space);
  return context.client->views().GetOverview(open) ? Result<std::string>("") : code.error();
}

}  // namespace console_command

int Console(Context& context, const ConsoleOptions& options) {
  using namespace console_command;  // NOLINT: its own
  const auto base = BaseOf(context, options.http);
  if (!base) return context.FailUsage(base.error());
  const auto code = CodeOf(context);
  if (!code) return context.Fail(code.error());
  const std::string path = PathOf(context, options.subject);
  const std::string address =
      code->empty() ? *base + path : *base + "/signin?next=" + Percent(path) + "#code=" + *code;
  if (context.format == OutputFormat::kJson) {
    context.out << "{\"address\":" << JsonString(address) << "}\n";
  } else if (context.format == OutputFormat::kYaml) {
    context.out << "address: " << JsonString(address) << '\n';
  } else {
    context.out << address << '\n';
  }
  return kSucceeded;
}

}  // namespace dfsmr::cli
