package waypost

import (
	"regexp"
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
	if !zoneName.MatchString(name) || name == "Local" {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	zones.Store(name, loc)
	return loc, true
}

// zoneName keeps other names away from the file system. All names of IANA begin with a
// capital letter, unlike the folders posix and right that some systems have beside them;
// a doubled slash would name the file of another name.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// farthest is more than any offset from UTC that a zone ever had.
const farthest = 30 * time.Hour

// FirstAt returns the first instant at which clocks of the zone show wall, written as UTC,
// or a later time: a time that clocks jump over becomes the end of the jump, and of the
// two instants of a time that they show twice it is the first.
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
