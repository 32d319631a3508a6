package api

// AuditEntry is who changed what.
type AuditEntry struct {
	At Time `json:"at"`
	// The id of the application that called; null for a command that wrote to the database.
	Application TextOrNull `json:"application"`
	// The person behind it, if the application named one. A user of the console is named by their e-mail address, and by
	// their id once they are deleted.
	Actor TextOrNull `json:"actor"`
	// What was done, such as `webhook.update`.
	Action string `json:"action"`
	// The id of what was changed; of an export, of tokens and of articles as a whole their name, such as `leads`.
	Target string `json:"target"`
	// The members that changed, as they were. Of leads the names alone, in `fields`.
	Before ObjectOrNull `json:"before"`
	// The members that changed, as they are. A secret is `set` or `replaced`; what is longer than 8 KiB is `{"leftOut":BYTES}`.
	After ObjectOrNull `json:"after"`
	// The `X-Request-Id` of the call.
	RequestID TextOrNull `json:"requestId"`
	// Of what is done to users and of sign-ins, the client's address as the console has seen it; of IPv6 the /64. null of all
	// else.
	Address TextOrNull `json:"address"`
}
