// Package journey is the language that journeys are written in: the definition
// (Parse, Check, Diff), the interpreter (Step), the conditions of branches and of
// waits for events in CEL (DecideAt, Matches), clocks and calendars (NextInstant,
// QuietUntil), splits (SplitArm), the params of touchpoints in Liquid (Render), and
// all of it on a virtual clock (Simulate, Forecast).
//
// Parse and Step are pure: no clock, no network, no randomness, so that a
// workflow replays them and the dry run shares them. DecideAt, Matches,
// QuietUntil and Render look at personal data and at library versions, time zones
// among them; their results come back to Step as recorded input.
package journey
