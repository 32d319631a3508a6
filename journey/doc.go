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
//
// # Files by topic
//
//   - the definition: definition.go, node.go, comment.go, parse.go, param.go
//   - what is wrong with one: check.go, check_times.go, graph.go
//   - the interpreter: state.go, step.go, move.go, effect.go
//   - what is done at the nodes of each type: kind.go, kind_touchpoint.go, kind_delay.go, kind_wait_until.go, kind_wait_for_event.go,
//     kind_wait_for.go, kind_branch.go, kind_split.go, kind_enroll.go, kind_update_lead.go, kind_emit.go; package nodes describes them
//   - what begins it by itself: entry.go
//   - what activities evaluate for it: decide.go, facts.go, wait_until.go, look.go, quiet.go, clock.go, goal.go
//   - conditions in CEL: condition.go, celsyntax.go, celrewrite.go, celtypes.go, celparts.go, celnumbers.go, celfunctions.go, celtime.go, celrecord.go,
//     celdecorators.go, celcost.go
//   - conditions of segments: segment.go
//   - params in Liquid: render.go, template.go
//   - versions, dry runs, forecasts: diff.go, simulate.go, forecast.go
package journey
