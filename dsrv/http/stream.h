// Calls that stream one way, by the Connect protocol.
#pragma once

#include <memory>

#include "dsrv/http/exchange.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/interface.h"

namespace dfsmr::http {

// The exchange reads its body as a stream.
void ServeStream(Inside& inside, std::shared_ptr<Exchange> exchange,
                 const MethodDescriptor& method);

}  // namespace dfsmr::http
