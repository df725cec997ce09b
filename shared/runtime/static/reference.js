// No validatorUrl: the description is shown, not sent to anybody.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#reference", deepLinking: true, validatorUrl: null });
