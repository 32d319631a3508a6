// Package waypost is the vocabulary of Waypost: the things that marketers,
// operators and API clients talk about, with their checks and their states.
// It knows no database, no network and no Temporal; the packages around it
// adapt it to those.
package waypost

// ProductVersion names the running release in the User-Agent of webhook
// messages and in `waypost --version`.
const ProductVersion = "0.1.0"
