const LASTING = ["permission_denied", "invalid_argument", "not_found", "failed_precondition", "out_of_range"];

// What the server, or the way to it, says instead of an answer.
export class Refusal extends Error {
  constructor(
    readonly code: string,
    readonly reason: string,
    message: string,
    readonly details: unknown[] = [],
  ) {
    super(message);
  }
  // Nobody is signed in, or no longer.
  get signedOut(): boolean {
    return this.code === "unauthenticated";
  }
  // Asked again it would say the same, until something else changes.
  get lasting(): boolean {
    return LASTING.includes(this.code);
  }
  // The server was not reached, or is on its way down: it may be asked again.
  get away(): boolean {
    return this.code === "unavailable" || this.code === "unreached";
  }
}

interface ErrorBody {
  code?: string;
  message?: string;
  details?: { type?: string; debug?: { reason?: string } }[];
}

export function refusalOf(body: ErrorBody, status = 0): Refusal {
  const details = body.details ?? [];
  const reason = details.find((detail) => detail.debug?.reason)?.debug?.reason ?? "";
  return new Refusal(
    body.code ?? "unknown",
    reason,
    body.message ?? `the server answered ${status}`,
    details,
  );
}

export function unreached(): Refusal {
  return new Refusal("unreached", "", "the server was not reached");
}

export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("unknown", "", error instanceof Error ? error.message : String(error));
}
