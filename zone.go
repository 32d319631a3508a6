package waypost

import (
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // machines without a time zone database must know the same zones
)

// zones keeps the time zones that were found; there are some hundred names.
var zones sync.Map // string → *time.Location

// Zone returns the time zone of an IANA name, and whether there is one. The machine's
// own zone, which the library calls Local, is none.
func Zone(name string) (*time.Location, bool) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), true
	}
	if !isZoneName(name) {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	zones.Store(name, loc)
	return loc, true
}

// isZoneName keeps names away from the file system that IANA does not give: all of
// its names begin with a capital letter, unlike the folders posix and right that
// some systems have beside them.
func isZoneName(name string) bool {
	strange := func(r rune) bool { return !strings.ContainsRune(zoneLetters, r) }
	return name != "Local" && name != "" && 'A' <= name[0] && name[0] <= 'Z' && !strings.ContainsFunc(name, strange) &&
		!strings.Contains(name, "//") // the file of another name
}

// zoneLetters are the characters of an IANA name.
const zoneLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/"

// farthest is more than any offset from UTC that a zone ever had.
const farthest = 30 * time.Hour

// FirstAt returns the first instant at which clocks of the zone show wall, written
// as UTC, or later. So a time that clocks jump over is moved to where they jump
// to, and of one that they show twice it is the first.
func FirstAt(wall time.Time, loc *time.Location) time.Time {
	t := wall.Add(-farthest).In(loc) // clocks show less than wall here
	for {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		// Where rules without an end apply, Go takes 365 days for every year, so that on the
		// last one of a leap year this is its beginning (golang/go#81583).
		if !end.IsZero() && !end.After(t) {
			end = end.Add(24 * time.Hour)
		}
		if found := wall.Add(-time.Duration(offset) * time.Second); end.IsZero() || found.Before(end) {
			if found.Before(t) { // clocks jumped over it when this period began
				return t
			}
			return found.In(loc)
		}
		t = end.In(loc)
	}
}
