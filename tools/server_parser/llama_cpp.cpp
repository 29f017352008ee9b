// What llama-server understands of its arguments and of a models preset file, as JSON.
//
//     parser command ARGUMENT...   every field of its parameters; the environment counts as for it
//     parser preset FILE           the arguments with which the router starts each model
//
// It is llama.cpp's own parser, and nothing else of the server: no model is looked for, no port
// opened. Like the server it exits with 1 and a message on stderr where it refuses. Devices that
// people name on their machines exist here by name, so that a refusal is never about this machine.
#include "answer.h"

#include "arg.h"
#include "common.h"
#include "ggml-backend-impl.h"
#include "preset.h"

#include <clocale>
#include <cstring>
#include <list>

namespace {

struct Device {
    std::string name;
    ggml_backend_buffer_type memory;
    ggml_backend_device device;
};

std::list<Device> devices;

const char * name_of(void * device) { return ((Device *) device)->name.c_str(); }

ggml_backend_device * add_device(ggml_backend_reg * registry, const std::string & name) {
    auto & added = devices.emplace_back(Device{name, {}, {}});
    added.memory.iface.get_name = [](auto memory) { return name_of(memory->context); };
    added.memory.device = &added.device;
    added.memory.context = &added;
    auto & iface = added.device.iface;
    iface.get_name = [](auto device) { return name_of(device->context); };
    iface.get_description = iface.get_name;
    iface.get_memory = [](auto, size_t * free, size_t * total) { *free = *total = (size_t) 24 << 30; };
    iface.get_type = [](auto) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
    iface.get_buffer_type = [](auto device) { return &((Device *) device->context)->memory; };
    added.device.reg = registry;
    added.device.context = &added;
    return &added.device;
}

ggml_backend_reg * new_registry(const char * name) {
    auto * registry = new ggml_backend_reg{GGML_BACKEND_API_VERSION, {}, (void *) name};
    registry->iface.get_name = [](auto one) { return (const char *) one->context; };
    registry->iface.get_device_count = [](auto) { return (size_t) 0; };
    registry->iface.get_proc_address = [](auto, const char *) { return (void *) nullptr; };
    return registry;
}

// --rpc: a device per server, under the name that the RPC backend gives it.
ggml_backend_reg * add_rpc_server(const char * endpoint) {
    static int n_servers = 0;
    auto * registry = new_registry(strdup((std::string("RPC ") + endpoint).c_str()));
    ggml_backend_device_register(add_device(registry, "RPC" + std::to_string(n_servers++)));
    return registry;
}

void add_devices() {
    const std::map<const char *, int> counts = {{"CUDA", 8}, {"ROCm", 4}, {"Vulkan", 4}};
    for (const auto & [kind, count] : counts) {
        auto * registry = new_registry(kind);
        ggml_backend_register(registry);
        for (int i = 0; i < count; i++) {
            ggml_backend_device_register(add_device(registry, kind + std::to_string(i)));
        }
    }
    auto * rpc = new_registry("RPC");
    rpc->iface.get_proc_address = [](auto, const char * wanted) {
        const bool known = strcmp(wanted, "ggml_backend_rpc_add_server") == 0;
        return known ? (void *) add_rpc_server : nullptr;
    };
    ggml_backend_register(rpc);
}

} // namespace

std::string json(ggml_backend_dev_t device) {
    return device ? quoted(ggml_backend_dev_name(device)) : "null";
}

std::string json(const llama_model_tensor_buft_override & rule) {
    return rule.pattern ? quoted(std::string(rule.pattern) + "=" + ggml_backend_buft_name(rule.buft)) : "null";
}

std::string json(const llama_model_kv_override & rule) {
    const std::string key = rule.key;
    switch (rule.tag) {
        case LLAMA_KV_OVERRIDE_TYPE_INT: return quoted(key + "=" + std::to_string(rule.val_i64));
        case LLAMA_KV_OVERRIDE_TYPE_FLOAT: return quoted(key + "=" + json(rule.val_f64));
        case LLAMA_KV_OVERRIDE_TYPE_BOOL: return quoted(key + "=" + json(rule.val_bool));
        case LLAMA_KV_OVERRIDE_TYPE_STR: return quoted(key + "=" + rule.val_str);
    }
    return "null";
}

std::string json(const llama_logit_bias & bias) {
    return quoted(std::to_string(bias.token) + "=" + json(bias.bias));
}

#include "fields.h"

static int print_preset(const char * path) {
    common_preset_context context(LLAMA_EXAMPLE_SERVER);
    common_preset global;
    try {
        const auto models = context.cascade(global, context.load_from_ini(path, global));
        std::map<std::string, std::vector<std::string>> starts;
        for (const auto & [name, preset] : models) {
            starts[name] = preset.to_args();
        }
        printf("%s\n", written(starts).c_str());
    } catch (const std::exception & error) {
        fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

int main(int argc, char ** argv) {
    std::setlocale(LC_NUMERIC, "C");
    if (argc < 2 || (strcmp(argv[1], "command") != 0 && (strcmp(argv[1], "preset") != 0 || argc != 3))) {
        fprintf(stderr, "usage: parser command ARGUMENT... | parser preset FILE\n");
        return 2;
    }
    add_devices();
    if (strcmp(argv[1], "preset") == 0) {
        return print_preset(argv[2]);
    }
    common_params params;
    if (!common_params_parse(argc - 1, argv + 1, params, LLAMA_EXAMPLE_SERVER)) {
        return 1;
    }
    print_fields(params);
    return 0;
}
