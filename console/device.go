package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"waypost"
)

// A browser in which a person has signed in has a device cookie: an id, and for each of its people
// a code, which is an HMAC of the id and the e-mail address. Tries of that person's password from
// this browser have a limit of their own, so that strangers who use up the general limit do not lock
// the person out (OWASP, "Slow Down Online Guessing Attacks with Device Cookies").

// maxDevicePeople bounds the people of a device cookie; those who signed in last stay.
const maxDevicePeople = 5

// deviceCookie is the browser's device cookie, "" and nothing without one.
func (v *visit) deviceCookie() (id string, codes []string) {
	parts := strings.Split(v.cookie(v.r, "device"), ".")
	return parts[0], parts[1:]
}

// deviceCode is the code of a device and a person, by one of the console's keys.
func deviceCode(key waypost.DerivedKey, id, email string) string {
	mac := hmac.New(sha256.New, key.Key)
	mac.Write([]byte(id + "\n" + email))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// isCodeOf tells whether a code is that of a device and a person.
func (c *console) isCodeOf(code, id, email string) bool {
	return slices.ContainsFunc(c.deviceKeys, func(key waypost.DerivedKey) bool {
		return hmac.Equal([]byte(code), []byte(deviceCode(key, id, email)))
	})
}

// knownDevice is the id of the browser if the person has signed in there before, else "".
func (v *visit) knownDevice(email string) string {
	id, codes := v.deviceCookie()
	if slices.ContainsFunc(codes[:min(len(codes), maxDevicePeople)], func(code string) bool { return v.isCodeOf(code, id, email) }) {
		return id
	}
	return ""
}

// knowDevice makes the browser a known device of the person who signs in.
func (v *visit) knowDevice(email string) {
	id, codes := v.deviceCookie()
	if len(codes) == 0 {
		id = rand.Text()
	}
	codes = slices.DeleteFunc(codes, func(code string) bool { return v.isCodeOf(code, id, email) })
	codes = append([]string{deviceCode(v.deviceKeys[0], id, email)}, codes[:min(len(codes), maxDevicePeople-1)]...)
	v.setCookie("device", id+"."+strings.Join(codes, "."), year)
}
