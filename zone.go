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
