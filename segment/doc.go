// Package segment compiles the conditions of segments (docs/segments.md), and divides each
// into what a database can answer and what must be evaluated. It is pure: no clock, no
// database.
//
// A condition has three results: true, false, and an error, such as of a field that is not
// set. CEL's &&, || and ! treat an error as SQL treats NULL, so a condition is made of two
// questions that have two results each: is it certainly true, is it certainly false
// (Cond). Where neither can be asked of a database, the question becomes a wider one, and
// those who meet it are evaluated.
package segment
