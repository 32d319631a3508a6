package waypost_test

import (
	"testing"

	"waypost"
)

// The forms of birthdays in files; those that could be another day, or are none, are refused as they are.
func TestReadLeadRow_birthday(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"1990-12-31": "1990-12-31", "1990/12/31": "1990-12-31", "1990-1-5": "1990-01-05", "19901231": "1990-12-31", "Dec 31, 1990": "1990-12-31",
		"31 December 1990": "1990-12-31", "1990-12-31 00:00:00": "1990-12-31", "1990-12-31T00:00:00.000Z": "1990-12-31", "1990-12-31T00:00:00+08:00": "1990-12-31",
		" 1990/12/31\u00a0": "1990-12-31", "--12-31": "--12-31", "12-31": "--12-31", "--1231": "--12-31", "02-29": "--02-29",
		"01/02/1990": "", "1.2.1990": "", "31-12-90": "", "12/31": "", "1231": "", "02-30": "", "1990-12-30T16:00:00Z": "", "662601600": "", "33238": "", "soon": "",
		"1990-02-29": "",
	} {
		row, problems := waypost.ReadLeadRow([]byte(`{"name":"a","birthday":"` + written + `"}`))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		_, err := row.Fields.Validate("CN", noon)
		switch {
		case want == "" && waypost.CodeOf(err) != waypost.CodeBadRequest:
			t.Errorf("%s: %v, %s", written, err, *row.Fields.Birthday)
		case want != "" && (err != nil || *row.Fields.Birthday != want):
			t.Errorf("%s: %v, %s, want %s", written, err, *row.Fields.Birthday, want)
		}
	}
}
