// gRPC (1.51) runs the callbacks of all channels by threads of one queue, which goes with the last
// channel that has made such a call. If a callback lets go of that channel, the thread destroys the
// queue under itself, and the process crashes.
#pragma once

namespace dfsmr {

// From now on the queue stays, as long as the process does. Any thread.
void KeepCallbackQueue();

}  // namespace dfsmr
