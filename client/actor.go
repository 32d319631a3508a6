package client

import (
	"net/http"

	"waypost/signature"
)

// As returns a client that names the person for whom it calls (X-Cloud-Actor), in up to
// waypost.MaxActor characters; "" for nobody. It shares c's connections.
func (c *Client) As(actor string) *Client {
	named := *c
	named.Header = c.Header.Clone()
	if named.Header == nil {
		named.Header = http.Header{}
	}
	if named.Header.Del(signature.HeaderActor); actor != "" {
		named.Header.Set(signature.HeaderActor, actor)
	}
	return &named
}
