package waypost

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time that is written as Go writes it ("300ms",
// "72h") or as ISO 8601 does ("P3D", "PT5M"). Years and months are refused:
// they have no fixed length.
type Duration time.Duration

var isoDuration = regexp.MustCompile(`^P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$`)

// maxDuration keeps times computed from durations inside what RFC 3339 and the
// databases can hold.
const maxDuration = 100 * 365 * 24 * time.Hour

// ParseDuration reads a Go or ISO 8601 duration of zero to 100 years.
func ParseDuration(s string) (Duration, error) {
	d, err := parseDuration(s)
	if err != nil || d < 0 || d > maxDuration {
		return 0, fmt.Errorf("%q is no duration; write it like 300ms, 72h, P3D or PT5M", Clip(s, 40))
	}
	return Duration(d), nil
}

func parseDuration(s string) (time.Duration, error) {
	if !strings.HasPrefix(s, "P") {
		return time.ParseDuration(s)
	}
	m := isoDuration.FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(s, "T") || s == "P" {
		return 0, strconv.ErrSyntax
	}
	seconds := 0.0
	for i, unit := range []float64{7 * 86400, 86400, 3600, 60, 1} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			return 0, err
		}
		seconds += n * unit
	}
	if seconds > maxDuration.Seconds() {
		return 0, strconv.ErrRange
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// String writes the duration in Go's form without zero units at its end: "72h"
// rather than "72h0m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what ParseDuration reads.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is a string like \"72h\" or \"P3D\": %w", err)
	}
	v, err := ParseDuration(s)
	*d = v
	return err
}

// Clip cuts s after n bytes at a character boundary, for messages that repeat
// input.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
