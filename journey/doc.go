// Package journey is the language that journeys are written in: the definition
// (Parse, Check), the interpreter (Step), the conditions of branches and of waits
// for events in CEL (Decide, Matches) and the params of touchpoints in Liquid
// (Render).
//
// Parse and Step are pure: no clock, no network, no randomness, so that a
// workflow replays them and the dry run shares them. Decide, Matches and Render
// look at personal data and at library versions; their results come back to Step
// as recorded input.
package journey
